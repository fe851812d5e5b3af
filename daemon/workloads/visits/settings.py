"""Settings of a run that differ from the configuration's."""

import json
from collections.abc import Mapping
from typing import Any

from schemas.config.visits import VisitsConfig
from schemas.visits.tables import IndexMode


def with_changes(settings: VisitsConfig, changes: Mapping[str, Any]) -> VisitsConfig:
    """Settings with some fields changed, those of tables within (`survey`) one by one; all is checked again.

    Raises:
        pydantic.ValidationError: they do not fit together.
    """
    tree: dict[str, Any] = settings.model_dump(mode="json", by_alias=True)
    for key, value in changes.items():
        tree[key] = {**tree[key], **value} if isinstance(value, dict) and isinstance(tree.get(key), dict) else value
    if tree["index_mode"] != IndexMode.LAST_OBJECT_TABLE and "last_update" not in changes:
        tree["last_update"] = None  # it was of another mode's table
    # Strictly, and by way of JSON, as the file is checked: `"visits": "480"` does not pass.
    return VisitsConfig.model_validate_json(json.dumps(tree), strict=True)
