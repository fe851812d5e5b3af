"""What must not change between runs of visits into one schema: kept as JSON in VisitSettings, and compared."""

import json
from typing import Any

from backends.base import SchemaMismatch
from schemas.config.visits import VisitsConfig
from schemas.visits.tables import IndexMode


def settings_of(visits: VisitsConfig) -> str:
    """The settings that everything in the schema follows from, as one JSON object by their names in `[visits]`."""
    settings = {f"survey.{name}": value for name, value in visits.survey.model_dump(mode="json").items()}
    settings["index_mode"] = visits.index_mode.value
    if visits.index_mode is IndexMode.LAST_OBJECT_TABLE:
        settings["last_columns"] = visits.last_columns.value
    if visits.index_mode is IndexMode.PARTITIONED:
        settings |= {"pixel_level": visits.pixel_level, "period_days": visits.period_days}
    return json.dumps(settings)


def check_settings(stored: str, visits: VisitsConfig) -> None:
    """See that visits that are there were made with these settings.

    stored: what `settings_of` gave when the schema was made.

    Raises:
        SchemaMismatch: one differs; the message names it and the fix.
    """
    there: dict[str, Any] = json.loads(stored)
    here: dict[str, Any] = json.loads(settings_of(visits))
    # The mode comes first: other settings differ because it does.
    for name in sorted(there.keys() | here.keys(), key=lambda name: (name != "index_mode", name)):
        if there.get(name) != here.get(name):
            raise SchemaMismatch(
                f"visits.{name}: the visits in schema {visits.schema_name!r} were made with {_words(there, name)},"
                f" the configuration has {_words(here, name)}; set it to what it was, or take another `schema` in"
                " [visits]"
            )


def _words(settings: dict[str, Any], name: str) -> str:
    return json.dumps(settings[name]) if name in settings else "none"
