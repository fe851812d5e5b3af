"""Readings calibrated by a global tag as it is at the moment of asking."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from backends.base import StoreError
from backends.conditions.base import ConditionsStore
from daemon.calibration.group import GroupCalibration, keys_of
from daemon.calibration.payloads import NotCalibrated, payload_files
from daemon.calibration.tables import PayloadTables
from schemas.checking.problems import listed
from schemas.conditions.calibration import BUTTONS, By
from schemas.conditions.intervals import Key
from schemas.conditions.rules import ConditionsRefused, check_tag
from schemas.config import ConditionsConfig, GroupConfig
from schemas.readings import Array


class CalibratedTooLate(NotCalibrated):
    """The database or the place of the payloads does not answer in time."""


class Calibrations:
    """Calibrates readings of groups.

    The database is asked anew for each question, for the intervals that hold its readings and no others: what is valid
    is never remembered. Payloads are, by their checksums.

    Args:
        store: of the conditions; None where the database has none.
        conditions: the tag, what its keys are, and where the payloads are.
        groups: the instrument groups.
        folder: what the name of the folder of payloads is relative to.
        give_up_s: how long a question may take.
    """

    def __init__(
        self,
        store: ConditionsStore | None,
        conditions: ConditionsConfig,
        groups: Iterable[GroupConfig],
        *,
        folder: Path,
        give_up_s: float,
    ) -> None:
        self._store, self._folder, self._give_up_s = store, folder, give_up_s
        self._groups = {each.name: (each.group(), each.calibrated_as) for each in groups}
        self.change(conditions)

    def change(self, conditions: ConditionsConfig) -> None:
        """Calibrate by this from now on."""
        self._conditions = conditions
        files = None if conditions.payloads is None else payload_files(conditions.payloads, self._folder)
        # Questions that are under way have the old ones.
        self._tables = {name: PayloadTables(group, files) for name, (group, _) in self._groups.items() if files}

    async def calibrate(self, group: str, readings: Array, tag: str | None = None) -> tuple[GroupCalibration, Array]:
        """Add positions to readings.

        Args:
            group: its name.
            readings: `answer_dtype` of the group, shape (n).
            tag: in place of the configured one.

        Returns:
            What was used, and the readings as `answer_dtype` of its group, shape (n): x_mm and y_mm are NaN where no
            calibration is valid.

        Raises:
            NotCalibrated: there is no calibration, or it cannot be used.
            StoreUnavailable: the database does not answer.
        """
        try:
            async with asyncio.timeout(self._give_up_s):
                used = await self._calibration(group, readings, tag)
                return used, await used.with_positions(readings)
        except TimeoutError:
            raise CalibratedTooLate(
                "calibrated",
                f"the conditions and payloads of group {group} took longer than {self._give_up_s:g} s",
                "see that the database and the place of conditions.payloads answer",
            ) from None

    async def _calibration(self, name: str, readings: Array, tag: str | None) -> GroupCalibration:
        group, type_ = self._groups[name]
        by, tag = self._conditions.by, tag or self._conditions.tag
        if type_ is None:
            fix = f"ask for a group with the channels {listed(BUTTONS)}, and neither x_mm nor y_mm"
            raise NotCalibrated("group", f"group {name} gives no four buttons", fix)
        if name not in self._tables:
            fix = "name the folder or address that payloads are below, and the global tag"
            raise NotCalibrated("conditions.payloads", "not given", fix)
        if tag is None or self._store is None:
            raise NotCalibrated("conditions.tag", "not given", "name the global tag by which readings are calibrated")
        tables = self._tables[name]
        try:
            check_tag(tag, "")
            revision, intervals = await self._store.between(tag, type_, *_extent(readings, by))
        except ConditionsRefused as refused:
            raise NotCalibrated(refused.field, refused.problem, refused.fix) from None
        except StoreError as error:
            if error.is_away:
                raise
            fix = "name the one that a server of conditions has made"
            problem = f"{self._conditions.schema_name} cannot be read ({error})"
            raise NotCalibrated("conditions.schema", problem, fix) from None
        return GroupCalibration(group, tag=revision, by=by, intervals=intervals, tables=tables)

    async def close(self) -> None:
        """Give back the connections."""
        if self._store is not None:
            await self._store.close()


def _extent(readings: Array, by: By) -> tuple[Key, Key]:
    """The least and the greatest key of readings."""
    if not len(readings):
        return Key(0, 0), Key(0, 0)
    majors, minors = keys_of(readings, by)
    first, last = majors.min(), majors.max()
    return Key(int(first), int(minors[majors == first].min())), Key(int(last), int(minors[majors == last].max()))
