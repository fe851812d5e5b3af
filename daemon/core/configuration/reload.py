"""Reloading: on SIGHUP the configuration is read again; what can change while the daemon runs does."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel

from backends.base import StoreError
from daemon.core.configuration.database import in_its_field, look_at_database
from daemon.core.configuration.loading import LoadedConfig, load_config
from daemon.core.monitoring.events import Events
from schemas.config import SOURCES, Config, ConfigError

RELOADABLE = frozenset(
    {
        "alarms.aside_readings",
        "alarms.backlog_triggers",
        "alarms.commit_p99_ms",
        "alarms.disk_full_in_days",
        "alarms.journal_full_in_min",
        "alarms.lost_readings",
        "alarms.missing_instruments",
        "alarms.node_clock_s",
        "alarms.quiet_s",
        "alarms.skipped_triggers",
        "alarms.slow_visits",
        "alarms.stale_s",
        "alarms.visit_stands_s",
        "alarms.visits_are_critical",
        "assembly.timeout_ms",
        "committer.max_batch_mib",
        "committer.max_waiting_mib",
        "committer.retry_first_ms",
        "committer.retry_most_ms",
        "conditions.by",
        "conditions.payloads",
        "conditions.tag",
        "decimation.after_days",
        "decimation.bucket_s",
        "decimation.keep_every",
        "decimation.mib_per_s",
        "decimation.window_s",
        "folders.answer_mib",
        "groups[].decimation.after_days",
        "groups[].decimation.bucket_s",
        "groups[].decimation.keep_every",
        "groups[].decimation.window_s",
        "groups[].retention.keep_days",
        "groups[].retention.max_gib",
        "journal.max_mib",
        "journal.segment_mib",
        "readers.governor.backlog_triggers",
        "readers.governor.commit_p99_ms",
        "retention.check_every_s",
        "retention.disk",
        "retention.keep_days",
        "retention.max_gib",
        "retention.min_free_percent",
        "tiering.half_life_days",
        "tiering.policy",
        "tiers[].after_days",
        "tiers[].max_gib",
        "tiers[].mib_per_s",
        *(f"sources[].{name}" for source in SOURCES for name in source.RELOADABLE),
    }
)
"""Fields that change while the daemon runs; each other one needs a restart."""
IDENTITY = ("name", "tablespace", "directory", "kind", "host", "port")
"""Fields that say which one of a list a section is: what the file says of another is not for it."""
TOGETHER = {"groups": ("retention", "decimation"), "tiers": ("tiering",), "sources": ()}
"""Lists, and the sections that are meant for what is in them: where others are in a list it needs a restart, and so do
these. Days that are for all groups may have been those of one, which the file now gives to it alone."""


class Reloader:
    """Reads the configuration again and applies what can be applied.

    apply: takes the configuration that holds from now on.
    begun, ended: called around each reload, as the service manager wants to know.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        *,
        apply: Callable[[Config], None],
        begun: Callable[[], None],
        ended: Callable[[], None],
        events: Events,
    ) -> None:
        self._config = loaded.config
        self._passwords = _passwords(loaded)
        self._path: Path = loaded.path
        self._apply, self._begun, self._ended = apply, begun, ended
        self._events = events

    async def run(self, wanted: asyncio.Event) -> None:
        """Reload whenever it is wanted, until cancelled."""
        while True:
            await wanted.wait()
            wanted.clear()
            self._begun()
            await self.reload()
            self._ended()

    async def reload(self) -> None:
        """Read the file and apply it; one with a problem changes nothing, and each problem is reported."""
        try:
            found = await asyncio.to_thread(load_config, self._path)
        except ConfigError as error:
            for problem in error.problems:
                self._events.error(f"the configuration stays as it was: {problem}")
            return
        changed = list(differences(self._config, found.config))
        self._config = applicable(self._config, found.config)
        passwords = [field for field, password in _passwords(found).items() if password != self._passwords[field]]
        changed += passwords
        left = set(differences(self._config, found.config))
        for field in changed:
            if field in left or field in passwords:
                self._events.warning(f"{field} has changed in the file; it needs a restart, the old one is used")
            else:
                self._events.info(f"{field} has changed, and is used from now on")
        self._apply(self._config)
        self._events.info(f"the configuration was read again: {_counted(len(changed))}")
        if left or passwords:
            await self._look_at_a_restart(found)

    async def _look_at_a_restart(self, found: LoadedConfig) -> None:
        """Say it now if the database will not be used as configured: the restart would end in a loop of failed ones."""
        try:
            await look_at_database(found)
        except StoreError as error:
            self._events.error(
                f"a restart would fail, the old configuration is used: {in_its_field(error, found.config)}"
            )


def _passwords(loaded: LoadedConfig) -> dict[str, str | None]:
    return {"database.password": loaded.password, "readers.password": loaded.readers_password}


def differences(old: object, new: object, path: str = "") -> Iterator[str]:
    """The fields that differ, e.g. `sources[0].port`; sections that cannot be compared field by field as a whole."""
    for at, before, after in _pairs(old, new, path):
        if before != after:
            yield at


def applicable(old: Config, new: Config) -> Config:
    """The old configuration, with what is new and can change while the daemon runs."""
    merged = _merged(old, new, "")
    assert isinstance(merged, Config)
    stay = [name for listed, of in TOGETHER.items() if _are_others(old, new, listed) for name in (listed, *of)]
    return merged.model_copy(update={name: getattr(old, name) for name in stay})


def _pairs(old: object, new: object, path: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(old, BaseModel) and type(old) is type(new):
        for name, field in type(old).model_fields.items():
            at = f"{path}.{field.alias or name}".lstrip(".")
            yield from _pairs(getattr(old, name), getattr(new, name), at)
    elif _are_sections(old, new):
        for i, (before, after) in enumerate(zip(old, new, strict=True)):  # type: ignore[call-overload]
            yield from _pairs(before, after, f"{path}[{i}]")
    else:
        yield path, old, new


def _merged(old: object, new: object, path: str) -> object:
    if isinstance(old, BaseModel) and type(old) is type(new):
        changes = {
            name: _merged(getattr(old, name), getattr(new, name), f"{path}.{field.alias or name}".lstrip("."))
            for name, field in type(old).model_fields.items()
        }
        return old.model_copy(update=changes)
    if _are_sections(old, new):
        pairs = zip(old, new, strict=True)  # type: ignore[call-overload]
        return tuple(_merged(before, after, f"{path}[{i}]") for i, (before, after) in enumerate(pairs))
    return new if _can_change(path, old, new) else old


def _are_sections(old: object, new: object) -> bool:
    """Whether both are lists of as many sections."""
    if not (isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new)):
        return False
    return all(isinstance(section, BaseModel) for section in (*old, *new))


def _are_others(old: Config, new: Config, listed: str) -> bool:
    """Whether a list has other sections, or in another order."""
    before, after = (
        [[getattr(each, name, None) for name in IDENTITY] for each in getattr(of, listed)] for of in (old, new)
    )
    if listed == "sources":
        # One is known by its place: with another port it is the same, but where that was the port of another.
        return any(each != was and each in before for was, each in zip(before, after, strict=False))
    return before != after


def _can_change(path: str, old: object, new: object) -> bool:
    if path == "journal.max_mib" and not (old and new):
        return False  # whether there is a journal at all is settled at the start
    return re.sub(r"\[\d+\]", "[]", path) in RELOADABLE


def _counted(changes: int) -> str:
    return f"{changes} changed field{'' if changes == 1 else 's'}" if changes else "nothing has changed"
