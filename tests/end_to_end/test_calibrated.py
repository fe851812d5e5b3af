"""Calibrated values of a real daemon: over the API and in a reader workload, from real payload files."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends import open_conditions_store
from schemas.api.readings import OneTrigger, Readings
from schemas.api.status import ReaderStatus
from schemas.conditions.calibration import BUTTONS
from schemas.conditions.intervals import END, Key, NewInterval, TagStatus
from schemas.config import DatabaseConfig
from schemas.readings import Array
from tests.daemon.tools.export.test_export_calibrated import (
    CONFIGURATION,
    EVERY_NS,
    GROUP,
    START_NS,
    TAGS,
    Payloads,
    sha256,
    slow,
    stored,
    tagged,
)
from tests.support.calibrations import crashing_parquet, payload_of, written
from tests.support.problems import line_of
from tests.support.processes import Running, running, until

pytestmark = pytest.mark.slow
MORE = """
tag = "spring"

[[sources]]
kind = "tcp"
port = 0

[api]
port = 0

[dashboard]
port = 0
"""


class Logger:
    """A daemon that has readings of two runs, and tags that calibrate them."""

    def __init__(self, run: Running, file: Path, whole: Array, payloads: Payloads) -> None:
        self.run, self.file, self.whole, self.payloads = run, file, whole, payloads
        self.api = run.until_said(r"taking readings at \S+; API at (\S+)")[1]
        token = (file.parent / "state" / "api-token").read_text().strip()
        self.client = httpx.Client(base_url=f"{self.api}/api/v1", verify=False, trust_env=False, timeout=60)
        self.with_token = {"authorization": f"Bearer {token}"}

    def ask(self, path: str, **asked: object) -> httpx.Response:
        return self.client.get(f"/groups/{path}", params=asked)

    def trigger(self, run: int, trigger: int, **asked: object) -> OneTrigger:
        answer = self.ask(f"bpm/triggers/{trigger}", run=run, calibrated=True, **asked)
        return OneTrigger.model_validate_json(answer.raise_for_status().content)

    def readings_of(self, run: int, trigger: int) -> Array:
        chosen = self.whole[(self.whole["run"] == run) & (self.whole["trigger"] == trigger)]
        return np.sort(chosen, order="instrument")

    def reload(self, before: str, after: str) -> None:
        """Change the configuration; back when the daemon calibrates by it."""
        self.file.write_text(self.file.read_text().replace(before, after))
        said = len(self.run.said)
        self.run.process.send_signal(signal.SIGHUP)
        until(lambda: "the configuration was read again: 1 changed field" in self.run.said[said:], "it is read again")


@pytest.fixture(scope="module")
def payloads(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Payloads]:
    rng, folder = np.random.default_rng(11), tmp_path_factory.mktemp("calibrated")
    found = {f"bpm/{name}": payload_of(GROUP, rng) for name in ("a.json", "b.parquet", "c.json", "d.json")}
    for url, rows in found.items():
        written(folder / "payloads", url, rows)
    return folder, found


@pytest.fixture(scope="module")
def logger(payloads: tuple[Path, Payloads], postgresql_dsn: str) -> Iterator[Logger]:
    folder, found = payloads
    schema, file = "calibrated", folder / "beam.toml"
    whole = stored(postgresql_dsn, schema, "rows")
    tagged(postgresql_dsn, schema, folder / "payloads")
    first = folder / "payloads" / "bpm" / "a.json"
    asyncio.run(add_tags(postgresql_dsn, f"{schema}_conditions", sha256(first), first.stat().st_size))
    channels = ", ".join(f'{{ name = "{c.name}", unit = "{c.unit}", dtype = "{c.dtype}" }}' for c in GROUP.channels)
    text = CONFIGURATION.format(channels=channels, dsn=postgresql_dsn, schema=schema, layout="rows") + MORE
    file.write_text(text)
    with running("run", str(file)) as run:
        daemon = Logger(run, file, whole, found)
        yield daemon
        daemon.client.close()
        assert run.end() == 0, run.said


async def add_tags(dsn: str, schema: str, checksum: str, size: int) -> None:
    """Tags whose payloads are not what their intervals say, or nowhere, and one that says nothing of its payload.

    checksum, size: of bpm/a.json.
    """
    store = open_conditions_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=Path("/nonexistent"))
    for tag, url, said, bytes_ in (
        ("altered", "bpm/a.json", "ab" * 32, None),
        ("resized", "bpm/a.json", checksum, size + 1),
        ("gone", "bpm/none.json", checksum[::-1], size),
        ("outside", "../beam.toml", "", None),
        ("unchecked", "bpm/unchecked.json", "", None),
        ("damaged", "bpm/damaged.parquet", "", None),
    ):
        await store.add_tag(tag, TagStatus.UNLOCKED)
        name = (await store.attach_list(tag, (await store.add_list("bpm")).name)).name
        stored_one = await store.add_interval(
            NewInterval(url=url, checksum=said, size=bytes_, start=Key(0, 0), end=END)
        )
        await store.attach_interval(name, stored_one.id)
    await store.close()


def xy_of(answer: OneTrigger | Readings) -> Array:
    return np.array([answer.channels["x_mm"], answer.channels["y_mm"]], float).T


def same(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_trigger_has_the_positions_by_what_is_valid_at_it(logger: Logger) -> None:
    folder = logger.file.parent / "payloads"
    for run, trigger, url in ((1, 14, "a.json"), (1, 15, "b.parquet"), (2, 29, "b.parquet"), (2, 30, None)):
        found, readings = logger.trigger(run, trigger), logger.readings_of(run, trigger)
        same(xy_of(found), slow(readings, TAGS["spring"], logger.payloads, by_time=False))
        for button in BUTTONS:
            assert found.channels[button] == readings[button].tolist()
        assert found.calibration is not None
        assert (found.calibration.tag, found.calibration.status, found.calibration.by) == (
            "spring",
            "locked",
            "trigger",
        )
        assert found.units == {**dict.fromkeys(BUTTONS, "count"), "x_mm": "mm", "y_mm": "mm"}
        used = [(each.url, each.checksum, each.is_verified) for each in found.calibration.payloads]
        assert used == ([] if url is None else [(f"bpm/{url}", sha256(folder / "bpm" / url), True)])
        without = 4 if url is not None else -1  # number of the instrument that no payload has
        count = len(readings) if url is None else int((readings["instrument"] == without).sum())
        assert found.calibration.readings_without == count
    raw = OneTrigger.model_validate_json(logger.ask("bpm/triggers/14", run=1).raise_for_status().content)
    assert (raw.calibration, list(raw.channels)) == (None, list(BUTTONS))


def test_another_tag_gives_other_positions_of_the_same_trigger(logger: Logger) -> None:
    readings, found = logger.readings_of(1, 14), {}
    for tag in ("spring", "summer"):
        found[tag] = xy_of(logger.trigger(1, 14, tag=tag))
        same(found[tag], slow(readings, TAGS[tag], logger.payloads, by_time=False))
    assert not np.allclose(found["spring"], found["summer"], equal_nan=True)


def test_the_newest_trigger_has_no_position_where_nothing_is_valid(logger: Logger) -> None:
    newest = OneTrigger.model_validate_json(logger.ask("bpm/newest", complete=0, calibrated=1).content)
    assert (newest.run, newest.trigger) == (2, 39)
    assert set(newest.channels["x_mm"]) == {None}
    assert newest.calibration is not None
    assert newest.calibration.readings_without == len(newest.instruments)
    summer = OneTrigger.model_validate_json(logger.ask("bpm/newest", complete=1, calibrated=1, tag="summer").content)
    assert summer.calibration is not None
    assert [each.url for each in summer.calibration.payloads] == ["bpm/d.json"]


@settings(deadline=None, max_examples=15)
@given(first=st.integers(0, 39), last=st.integers(0, 39), instrument=st.integers(0, 4))
def test_readings_on_both_sides_of_a_border_have_each_its_own(
    logger: Logger, first: int, last: int, instrument: int
) -> None:
    first, last = sorted((first, last))
    start_ns, end_ns = START_NS + first * EVERY_NS - 1000, START_NS + last * EVERY_NS + 1000
    asked = {"instrument": instrument, "start_ns": start_ns, "end_ns": end_ns, "calibrated": True}
    found = Readings.model_validate_json(logger.ask("bpm/readings", **asked).raise_for_status().content)
    chosen = logger.whole[logger.whole["instrument"] == instrument]
    chosen = np.sort(chosen[(chosen["time_ns"] >= start_ns) & (chosen["time_ns"] < end_ns)], order="time_ns")
    assert found.trigger == chosen["trigger"].tolist()
    if len(chosen):
        same(xy_of(found), slow(chosen, TAGS["spring"], logger.payloads, by_time=False))
    borders = {url for start, end, url in TAGS["spring"] for t in found.trigger if start <= Key(1, t) < end}
    assert found.calibration is not None
    assert {each.url for each in found.calibration.payloads} == borders


@pytest.mark.parametrize(
    ("path", "asked", "status", "says"),
    [
        ("toroid/newest", {"calibrated": 1}, 409, "group: not calibrated: group toroid gives no four buttons; ask"),
        (
            "bpm/newest",
            {"calibrated": 1, "tag": "winter"},
            409,
            "global_tag: not calibrated: winter is not there; name one that is, or add it first",
        ),
        (
            "bpm/triggers/14",
            {"calibrated": 1, "tag": "empty"},
            409,
            "global_tag: not calibrated: 'empty' has no list of type 'bpm'; attach one to it",
        ),
        (
            "bpm/readings",
            {"instrument": "0", "tag": "spring"},
            422,
            "tag: it says by which tag values are calibrated; give calibrated=true, too",
        ),
        (
            "bpm/triggers/14",
            {"calibrated": 1, "tag": "altered"},
            409,
            "checksum: not calibrated: payload 'bpm/a.json' has sha256 ",
        ),
        (
            "bpm/triggers/14",
            {"calibrated": 1, "tag": "resized"},
            409,
            "size: not calibrated: payload 'bpm/a.json' has ",
        ),
        (
            "bpm/triggers/14",
            {"calibrated": 1, "tag": "gone"},
            409,
            "url: not calibrated: there is no file 'bpm/none.json' in ",
        ),
        (
            "bpm/triggers/14",
            {"calibrated": 1, "tag": "outside"},
            409,
            "url: not calibrated: '../beam.toml' leads outside ",
        ),
        ("bpm/newest", {"calibrated": 1, "tag": ""}, 422, "tag: "),
        ("bpm/newest", {"calibrated": "certainly"}, 422, "calibrated: "),
        ("bpm/newest", {"calibrate": 1}, 422, "calibrate: unknown parameter; did you mean `calibrated`?"),
        ("bpm/ledger/14", {"calibrated": 1}, 422, "calibrated: unknown parameter"),
    ],
)
def test_what_is_not_calibrated_is_one_line(
    logger: Logger, path: str, asked: dict[str, Any], status: int, says: str
) -> None:
    answer = logger.ask(path, **asked)
    assert (answer.status_code, line_of(answer)[: len(says)]) == (status, says)


def test_a_payload_without_a_checksum_is_what_its_file_is_at_each_question(logger: Logger) -> None:
    readings, rng = logger.readings_of(1, 3), np.random.default_rng(8)
    for _ in range(3):
        rows = payload_of(GROUP, rng)
        checksum = written(logger.file.parent / "payloads", "bpm/unchecked.json", rows)
        found = logger.trigger(1, 3, tag="unchecked")
        span = (Key(0, 0), END, "bpm/unchecked.json")
        same(xy_of(found), slow(readings, [span], {"bpm/unchecked.json": rows}, by_time=False))
        assert found.calibration is not None
        (used,) = found.calibration.payloads
        assert (used.checksum, used.is_verified, used.end) == (checksum, False, None)


def test_a_payload_that_crashes_its_library_is_one_error_and_the_daemon_goes_on(logger: Logger) -> None:
    (logger.file.parent / "payloads" / "bpm" / "damaged.parquet").write_bytes(crashing_parquet())
    for _ in range(3):
        answer = logger.ask("bpm/triggers/14", run=1, calibrated=1, tag="damaged")
        assert answer.status_code == 409
        says = "(file): not calibrated: payload 'bpm/damaged.parquet': it is no Parquet that can be read ("
        assert line_of(answer).startswith(says)
    same(xy_of(logger.trigger(1, 14)), slow(logger.readings_of(1, 14), TAGS["spring"], logger.payloads, by_time=False))


def test_the_tag_changes_while_the_daemon_runs(logger: Logger) -> None:
    def told() -> str | None:
        tag: str | None = logger.client.get("/status").json()["groups"]["bpm"]["calibrated_by"]
        return tag

    assert told() == "spring"
    assert logger.client.get("/status").json()["groups"]["toroid"]["calibrated_by"] is None
    logger.reload('tag = "spring"', 'tag = "summer"')
    try:
        until(lambda: told() == "summer", "the status has it")
        found = logger.trigger(1, 14)
        same(xy_of(found), slow(logger.readings_of(1, 14), TAGS["summer"], logger.payloads, by_time=False))
        assert found.calibration is not None
        assert found.calibration.tag == "summer"
        logger.reload('tag = "summer"', 'tag = "by_time"')
        logger.reload('payloads = "payloads"', 'payloads = "payloads"\nby = "time"')
        for trigger in (16, 17):
            found = logger.trigger(1, trigger)
            same(xy_of(found), slow(logger.readings_of(1, trigger), TAGS["by_time"], logger.payloads, by_time=True))
        logger.reload('\nby = "time"', "")
    finally:
        logger.reload('tag = "by_time"', 'tag = "spring"')


def test_a_workload_reads_calibrated_orbits_and_counts_them(logger: Logger) -> None:
    def status(name: str) -> ReaderStatus:
        return ReaderStatus.model_validate(logger.client.get("/readers").json()[name])

    def start(**workload: object) -> httpx.Response:
        return logger.client.post("/readers", json={"kind": "orbit", **workload}, headers=logger.with_token)

    refused = start(name="charge", group="toroid")
    assert (refused.status_code, line_of(refused)) == (
        422,
        "group: group toroid gives no four buttons; name a group with the channels"
        " `top_in`, `bot_in`, `bot_out`, `top_out`",
    )
    logger.reload('tag = "spring"', 'tag = "summer"')
    try:
        assert start(name="orbits", clients=3, period_s=0.05).status_code == 201
        until(lambda: status("orbits").cycles >= 20, "it is answered")
        # The tag of one that runs stays.
        logger.reload('tag = "summer"', 'tag = "altered"')
        assert start(name="refused", period_s=0.05).status_code == 201
        until(lambda: status("refused").failed >= 2, "its questions fail")
        assert str(status("refused").problem).startswith("checksum: payload 'bpm/a.json' has sha256 ")
        assert (status("refused").cycles, status("refused").rows) == (0, 0)
        found = status("orbits")
        assert (found.kind, found.group, found.failed, found.problem) == ("orbit", "bpm", 0, None)
        assert found.rows == 5 * found.cycles
        for name in ("orbits", "refused"):
            assert logger.client.delete(f"/readers/{name}", headers=logger.with_token).is_success
    finally:
        logger.reload('tag = "altered"', 'tag = "spring"')
