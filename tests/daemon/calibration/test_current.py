"""Readings calibrated by a global tag as it is when they are asked for, in every database."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends import open_conditions_store
from backends.base import StoreUnavailable
from backends.conditions import ConditionsStore
from daemon.calibration.current import CalibratedTooLate, Calibrations
from daemon.calibration.payloads import NotCalibrated
from schemas.conditions.calibration import BUTTONS
from schemas.conditions.intervals import END, Key, TagStatus
from schemas.config import ConditionsConfig, DatabaseConfig, GroupConfig
from schemas.readings import Array
from tests.daemon.calibration.test_group import GROUP, readings_at
from tests.support.calibrations import intervals_of, payload_of, slow_position, written
from tests.support.memory.conditions import MemoryConditionsStore

SERVERS = {"memory": None, "postgresql": "postgresql_dsn", "mariadb": "mariadb_dsn"}
CHANNELS = [{"name": button, "dtype": "int32"} for button in BUTTONS]
BPM = GroupConfig.model_validate({"name": "bpm", "count": 3, "channels": CHANNELS})
TOROID = GroupConfig.model_validate({"name": "toroid", "count": 1, "channels": [{"name": "charge"}]})
Payloads = dict[str, list[dict[str, Any]]]


@pytest.fixture(params=SERVERS)
def dsn(request: pytest.FixtureRequest) -> str | None:
    """Where a server is; None stands for memory."""
    fixture = SERVERS[request.param]
    return None if fixture is None else str(request.getfixturevalue(fixture))


@pytest.fixture
async def store(dsn: str | None, schema: str, tmp_path: Path) -> AsyncIterator[ConditionsStore]:
    if dsn is None:
        yield MemoryConditionsStore()
        return
    async with AsyncExitStack() as stack:
        made = open_conditions_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=tmp_path)
        stack.push_async_callback(made.close)
        await made.create()
        stack.push_async_callback(made.drop)
        yield made


@pytest.fixture
def payloads(tmp_path: Path) -> Payloads:
    rng = np.random.default_rng(2)
    found = {url: payload_of(GROUP, rng) for url in ("a1", "a2", "b1", "b2")}
    for url, rows in found.items():
        written(tmp_path, url, rows)
    return found


def calibrations(store: ConditionsStore, folder: Path, *groups: GroupConfig, **conditions: Any) -> Calibrations:
    config = ConditionsConfig.model_validate({"payloads": str(folder), "tag": "a", **conditions})
    return Calibrations(store, config, groups or (BPM, TOROID), folder=folder, give_up_s=60.0)


async def add_list(store: ConditionsStore, *spans: tuple[Key, Key, str, str], type_: str = "bpm") -> str:
    name = (await store.add_list(type_)).name
    await store.insert({name: intervals_of(spans)})
    return name


async def two_lists(store: ConditionsStore) -> list[str]:
    """A tag `a` with a list of a1 and a2, and another list of b1 and b2 that may take its place."""
    await store.add_type("bpm")
    await store.add_tag("a", TagStatus.UNLOCKED)
    names = [
        await add_list(store, (Key(1, 0), Key(1, 10), f"{each}1", ""), (Key(1, 10), END, f"{each}2", ""))
        for each in "ab"
    ]
    await store.attach_list("a", names[0])
    return names


def slow(readings: Array, urls: Sequence[str | None], payloads: Payloads) -> Array:
    """x and y of each reading by the payload of this URL, one by one."""
    found = np.full((len(readings), 2), np.nan)
    for k, (reading, url) in enumerate(zip(readings, urls, strict=True)):
        for row in payloads.get(url or "", []):
            if row["instrument"] == GROUP.instruments[reading["instrument"]]:
                found[k] = slow_position([reading[button] for button in BUTTONS], row)
    return found


def close(wider: Array, expected: Array) -> bool:
    xy = np.stack([wider["x_mm"], wider["y_mm"]], axis=1)
    return bool(np.allclose(xy, expected, rtol=1e-9, atol=1e-9, equal_nan=True))


async def test_a_change_of_the_tag_counts_from_the_next_question_on(
    store: ConditionsStore, tmp_path: Path, payloads: Payloads
) -> None:
    lists = await two_lists(store)
    used = calibrations(store, tmp_path)
    readings = readings_at([(0, 7), (1, 9), (1, 10), (3, 1)], np.random.default_rng(1))
    for name, letter in zip(lists, "ab", strict=True):
        await store.attach_list("a", name)
        calibration, wider = await used.calibrate("bpm", readings)
        urls = np.repeat([None, f"{letter}1", f"{letter}2", f"{letter}2"], 3)
        assert close(wider, slow(readings, urls, payloads))
        np.testing.assert_array_equal(wider[list(readings.dtype.names or ())], readings)
        told = calibration.as_json()
        (revision,) = await store.revisions()
        assert (told["tag"], told["revision"], told["status"]) == ("a", revision.revision, "unlocked")
        assert [each["url"] for each in told["payloads"]] == [f"{letter}1", f"{letter}2"]
        assert told["readings_without"] == 3 + 3, "of the first trigger, and of the instrument that no payload has"
    calibration, nothing = await used.calibrate("bpm", readings[:0])
    assert (len(nothing), nothing.dtype.names[-2:], calibration.used) == (0, ("x_mm", "y_mm"), [])


async def test_a_tag_that_changes_while_it_is_read_is_never_mixed(
    store: ConditionsStore, tmp_path: Path, payloads: Payloads
) -> None:
    lists = await two_lists(store)
    used = calibrations(store, tmp_path)
    readings = readings_at([(1, 5), (1, 15)], np.random.default_rng(1))
    expected = {letter: slow(readings, np.repeat([f"{letter}1", f"{letter}2"], 3), payloads) for letter in ("a", "b")}
    is_over, of_revision = asyncio.Event(), dict[int, str]()

    async def change() -> None:
        for name, letter in itertools.cycle(zip(reversed(lists), "ba", strict=True)):
            if is_over.is_set():
                return
            await store.attach_list("a", name)
            (revision,) = await store.revisions()
            of_revision[revision.revision] = letter
            await asyncio.sleep(0)

    async def ask() -> list[tuple[int, str]]:
        found = []
        for _ in range(15):
            calibration, wider = await used.calibrate("bpm", readings)
            (letter,) = {each.url[0] for each in calibration.used}
            assert [each.url for each in calibration.used] == [f"{letter}1", f"{letter}2"]
            assert close(wider, expected[letter])
            found.append((calibration.tag.revision, letter))
            await asyncio.sleep(0)
        return found

    changing = asyncio.create_task(change())
    found = await asyncio.gather(ask(), ask(), ask())
    is_over.set()
    await changing
    told = [each for one in found for each in one]
    assert {letter for _, letter in told} == {"a", "b"}, "the tag changed meanwhile"
    assert all(of_revision.get(revision, letter) == letter for revision, letter in told)


async def test_each_group_has_its_payload_type_and_keys_may_be_times(
    store: ConditionsStore, tmp_path: Path, payloads: Payloads
) -> None:
    await store.add_type("bpm")
    await store.add_type("linac bpm")
    await store.add_tag("a", TagStatus.UNLOCKED)
    await store.attach_list("a", await add_list(store, (Key(0, 0), END, "a1", "")))
    await store.attach_list("a", await add_list(store, (Key(0, 9_000), END, "b1", ""), type_="linac bpm"))
    linac = GroupConfig.model_validate(
        {
            "name": "linac",
            "instruments": list(GROUP.instruments),
            "channels": CHANNELS,
            "payload_type": "linac bpm",
        }
    )
    used = calibrations(store, tmp_path, BPM, linac, by="time")
    readings = readings_at([(1, 8), (1, 9)], np.random.default_rng(1))  # 8,001 and 9,001 ns
    for group, urls in (("bpm", ["a1", "a1"]), ("linac", [None, "b1"])):
        calibration, wider = await used.calibrate(group, readings)
        assert close(wider, slow(readings, np.repeat(urls, 3), payloads))
        assert calibration.as_json()["by"] == "time"


async def test_what_cannot_be_calibrated_is_said_in_one_line(
    store: ConditionsStore, tmp_path: Path, payloads: Payloads
) -> None:
    await two_lists(store)
    await store.add_tag("empty", TagStatus.UNLOCKED)
    readings = readings_at([(1, 5)], np.random.default_rng(1))
    cases: list[tuple[str, str | None, dict[str, Any], str]] = [
        ("toroid", None, {}, "group: group toroid gives no four buttons; ask for a group with the channels `top_in`"),
        ("bpm", None, {"payloads": None, "tag": None}, "conditions.payloads: not given; name the folder or address"),
        ("bpm", None, {"tag": None}, "conditions.tag: not given; name the global tag by which"),
        ("bpm", "winter", {}, "global_tag: winter is not there; name one that is, or add it first"),
        ("bpm", "a\0", {}, "global_tag: it has a character that no database stores"),
        ("bpm", "empty", {}, "global_tag: 'empty' has no list of type 'bpm'; attach one to it"),
    ]
    for group, tag, conditions, says in cases:
        with pytest.raises(NotCalibrated) as refused:
            await calibrations(store, tmp_path, **conditions).calibrate(group, readings, tag)
        assert str(refused.value).startswith(says)
        assert "\n" not in str(refused.value)
    (tmp_path / "a1").unlink()
    with pytest.raises(NotCalibrated, match=r"^url: there is no file 'a1' in "):
        await calibrations(store, tmp_path).calibrate("bpm", readings)


async def test_another_tag_is_used_from_the_change_on(
    store: ConditionsStore, tmp_path: Path, payloads: Payloads
) -> None:
    await two_lists(store)
    await store.clone_tag("a", "b")
    used = calibrations(store, tmp_path)
    readings = readings_at([(1, 5)], np.random.default_rng(1))
    assert (await used.calibrate("bpm", readings))[0].tag.name == "a"
    assert (await used.calibrate("bpm", readings, "b"))[0].tag.name == "b"
    used.change(ConditionsConfig.model_validate({"payloads": str(tmp_path), "tag": "b"}))
    assert (await used.calibrate("bpm", readings))[0].tag.name == "b"
    used.change(ConditionsConfig())
    with pytest.raises(NotCalibrated, match=r"^conditions.payloads: not given"):
        await used.calibrate("bpm", readings)


async def test_a_place_that_does_not_answer_is_waited_for_only_so_long(tmp_path: Path) -> None:
    store, silent = MemoryConditionsStore(), asyncio.Event()

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    await two_lists(store)
    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    place = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    config = ConditionsConfig.model_validate({"payloads": place, "tag": "a"})
    used = Calibrations(store, config, (BPM,), folder=tmp_path, give_up_s=0.3)
    readings = readings_at([(1, 5)], np.random.default_rng(1))
    found = await asyncio.gather(*(used.calibrate("bpm", readings) for _ in range(5)), return_exceptions=True)
    assert [type(each) for each in found] == [CalibratedTooLate] * 5
    assert str(found[0]).startswith("calibrated: the conditions and payloads of group bpm took longer than 0.3 s; see")
    silent.set()
    server.close()
    await server.wait_closed()


async def test_a_database_that_is_away_and_a_schema_that_is_not_there_are_told_apart(
    postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    readings = readings_at([(1, 5)], np.random.default_rng(1))
    lacking = r"^conditions.schema: \w+ cannot be read \(.*\); name the one that a server of conditions"
    for dsn, error, problem in (
        (postgresql_dsn, NotCalibrated, lacking),
        ("postgresql://nobody@127.0.0.1:1/none", StoreUnavailable, "is not reachable"),
    ):
        store = open_conditions_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=tmp_path)
        with pytest.raises(error, match=problem):
            await calibrations(store, tmp_path).calibrate("bpm", readings)
        await store.close()
