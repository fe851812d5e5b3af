"""The governor in a daemon: it holds real readers back, says so, and is told otherwise."""

import signal
from pathlib import Path

import httpx

from tests.support.processes import GROUP, LISTENERS, running, triggerlog, until

READERS = """
[[sources]]
kind = "simulated"
group = "bpm"
rate = 50.0

[[readers.workloads]]
name = "operators"
kind = "newest"
clients = 4
period_s = 0.05
"""


def told(api: str) -> tuple[dict, dict]:
    """What the status says of the governor and of the readers."""
    status = httpx.get(f"{api}/api/v1/status", verify=False, trust_env=False, timeout=60).raise_for_status().json()
    return status["governor"], status["readers"]["operators"]


def test_a_ceiling_holds_readers_back_until_it_is_gone(state_dir: Path) -> None:
    state_dir.mkdir(parents=True)
    file, text = state_dir / "beam.toml", GROUP + LISTENERS.format(api=0) + READERS
    # Lower than any commit takes: the writing suffers whoever reads.
    file.write_text(f"{text}[readers.governor]\ncommit_p99_ms = 0.02\n")
    with running("run", str(file)) as run:
        api = run.until_said(r"taking readings at .*; API at (\S+)")[1]
        until(lambda: told(api)[0]["share"] == 1 / 64, "the least is left to the readers")
        governor, readers = told(api)
        assert (governor["commit_p99_ms"], governor["admitted"], governor["clients"]) == (0.02, 1, 4)
        assert (readers["admitted"], readers["share"]) == (1, 1 / 64)
        assert "is over its ceiling of 0.02 ms, and not for the readers: 1 of 4 clients may ask" in governor["reason"]
        run.until_said(r"readers are held back: commit p99 \S+ ms is over its ceiling of 0.02 ms")
        until(lambda: told(api)[1]["cycles"] > readers["cycles"], "readers get on all the same")

        token = (state_dir / "state" / "api-token").read_text().strip()
        url, headers = f"{api}/api/v1/governor", {"authorization": f"Bearer {token}"}
        with httpx.Client(verify=False, trust_env=False, timeout=60) as client:
            assert client.post(url, json={}).status_code == 401
            refused = client.post(url, json={"commit_p99_ms": -1}, headers=headers)
            assert (refused.status_code, told(api)[0]["commit_p99_ms"]) == (422, 0.02)
            assert "commit_p99_ms" in refused.text
            answer = client.post(url, json={}, headers=headers)
            assert (answer.status_code, answer.json()["commit_p99_ms"]) == (200, None)
        until(lambda: told(api)[1]["admitted"] == 4, "all may ask again")
        assert (told(api)[0]["state"], told(api)[1]["share"]) == ("off", 1.0)
        run.until_said("readers are not held back any more: no ceiling is set: every client may ask")
        cycles = told(api)[1]["cycles"]
        until(lambda: told(api)[1]["cycles"] > cycles + 20, "they do", timeout_s=10)

        file.write_text(f"{text}[readers.governor]\nbacklog_triggers = 100000\n")
        run.process.send_signal(signal.SIGHUP)
        run.until_said("readers.governor.backlog_triggers has changed, and is used from now on")
        until(lambda: told(api)[0]["state"] == "open", "a ceiling that is kept lets all ask")
        assert told(api)[0]["reason"].endswith("within its ceiling of 100,000 triggers: all 4 clients may ask")
        at = ("--daemon", api, "--token-file", str(state_dir / "state" / "api-token"))
        shown = triggerlog("governor", *at)
        assert shown.stdout.startswith("open: the backlog of "), shown.stderr
        changed = triggerlog("governor", *at, "--commit-p99", "60000")
        assert changed.stdout.startswith("open: commit p99"), changed.stderr
        assert told(api)[0]["backlog_triggers"] is None
        assert triggerlog("governor", *at, "--off").stdout == ("off: no ceiling is set: every client may ask\n")
        refused = triggerlog("governor", *at, "--off", "--backlog", "5")
        assert "--off and a ceiling exclude each other; give one of them" in refused.stderr
        assert run.end() == 0, run.said
