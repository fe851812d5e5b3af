"""Calibrations for a daemon that has none of its own: payload files, and a locked tag with their intervals."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from backends.conditions import ConditionsStore
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import conditions_store_of
from schemas.conditions.calibration import BUTTONS, KIND, BpmInstrument, BpmPayload
from schemas.conditions.intervals import END, Key, TagStatus, intervals_of_rows

GAIN_SPREAD, OFFSET_MM, ROTATION_RAD = 0.01, 0.1, 0.005
"""Standard deviations: of a button's gain from 1, of a monitor's offset, and of its rotation."""


async def store_calibrations(loaded: LoadedConfig, starts: Sequence[Key]) -> None:
    """Give the configured tag calibrations of the only group; nothing happens where it has some.

    One payload for each start is written into the configured folder of payloads. It is valid up to the next start, and
    the last one has no end. The values are the same every time.

    Raises:
        OSError: a payload cannot be written.
        StoreError: the database does not answer, or has other tables.
        ConditionsRefused: the tag is there without a list of the group's payload type, and its status permits none.
    """
    (section,), conditions = loaded.config.groups, loaded.config.conditions
    tag, type_ = str(conditions.tag), section.calibrated_as or KIND
    store = conditions_store_of(loaded, connections=1)
    try:
        await store.create()
        if any((each.tag, each.type) == (tag, type_) and each.intervals for each in await store.lists()):
            return
        folder = loaded.path.parent / str(conditions.payloads)
        contents = {
            f"{type_}-{number}.json": _payload(section.group().instruments, number) for number in range(len(starts))
        }
        await asyncio.to_thread(_write, folder, contents)
        rows = [
            (type_, url, hashlib.sha256(content).hexdigest(), len(content), *start, *END)
            for (url, content), start in zip(contents.items(), starts, strict=True)
        ]
        await store.insert({await _list_of(store, tag, type_): intervals_of_rows(rows)})
        await store.set_status(tag, TagStatus.LOCKED)
    finally:
        await store.close()


async def _list_of(store: ConditionsStore, tag: str, type_: str) -> str:
    """The name of the tag's list of a type; what is not there of it is added, as after a start that was cut short."""
    if type_ not in {each.name for each in await store.types()}:
        await store.add_type(type_)
    if tag not in {each.name for each in await store.tags()}:
        await store.add_tag(tag, TagStatus.UNLOCKED)
    lists = await store.tag_lists(tag)
    if type_ in lists:
        return lists[type_]
    return (await store.attach_list(tag, (await store.add_list(type_)).name)).name


def _payload(instruments: Sequence[str], number: int) -> bytes:
    rng = np.random.default_rng(number)
    gains = rng.normal(1, GAIN_SPREAD, (len(instruments), len(BUTTONS))).round(4).tolist()
    offsets = rng.normal(0, OFFSET_MM, (len(instruments), 2)).round(4).tolist()
    rotations = rng.normal(0, ROTATION_RAD, len(instruments)).round(5).tolist()
    calibrated = tuple(
        BpmInstrument.model_validate(
            {"instrument": name, "x0_mm": x0, "y0_mm": y0, "rotation_rad": rotation}
            | {f"gain_{button}": gain for button, gain in zip(BUTTONS, by_button, strict=True)}
        )
        for name, by_button, (x0, y0), rotation in zip(instruments, gains, offsets, rotations, strict=True)
    )
    return BpmPayload(kind="bpm", instruments=calibrated).model_dump_json(indent=1).encode()


def _write(folder: Path, contents: dict[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for url, content in contents.items():
        (folder / url).write_bytes(content)
