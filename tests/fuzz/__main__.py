"""Fuzz everything: `python -m tests.fuzz [--minutes 10] [--only tcp] [--seed 7]`, or `make fuzz`.

First a daemon in a process of its own, which has all the minutes; see `tests.fuzz.daemon`. Then functions, guided by
coverage, which share as many. What is found of them is left in `build/fuzz/TARGET-findings`: fix it, and keep the input
in `tests/fuzz/findings/TARGET`, where the tests run it ever after. What the fuzzer learned stays in `build/fuzz/TARGET`
for the next time. Without atheris the daemon alone is fuzzed.
"""

import argparse
import importlib.util
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.daemon import WITHIN_S, fuzz_daemon
from tests.fuzz.targets import FINDINGS, TARGETS

BUILD = Path(__file__).parent.parent.parent / "build" / "fuzz"
DAEMON = "daemon"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """executions, coverage (edges of the Python code) and inputs kept, as libFuzzer counts them; findings: files."""

    target: str
    executions: int
    coverage: int
    kept: int
    findings: tuple[Path, ...]


def fuzz(name: str, seconds: int) -> Outcome:
    """Fuzz one target for so long, or until it finds something."""
    target, corpus, findings = TARGETS[name], BUILD / name, BUILD / f"{name}-findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    known = [str(FINDINGS / name)] if (FINDINGS / name).is_dir() else []
    options = [f"-max_total_time={seconds}", f"-max_len={target.longest}", f"-artifact_prefix={findings}/"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.fuzz.one",
            name,
            str(corpus),
            *known,
            *options,
            "-timeout=30",
            "-print_final_stats=1",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.stderr.write(done.stderr[-6000:])
    return Outcome(
        target=name,
        executions=_last(r"stat::number_of_executed_units: *(\d+)", done.stderr),
        coverage=_last(r"cov: (\d+)", done.stderr),
        kept=_last(r"corp: (\d+)", done.stderr),
        findings=tuple(sorted(findings.iterdir())),
    )


def _last(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def attack_daemon(seconds: float, seed: int, within_s: float) -> bool:
    """Fuzz a daemon, and print what became of it; return true when something was found."""
    log = BUILD / f"daemon-{seed}.log"
    result = fuzz_daemon(seconds, seed, within_s, log)
    sys.stdout.write(f"{DAEMON:<9} {result}\n")
    sys.stdout.writelines(f"          {line}\n" for finding in result.findings for line in finding.splitlines())
    if result.findings:
        sys.stdout.write(
            f"          what the daemon logged: {log}; again: make fuzz ARGS='--only daemon --seed {seed}'\n"
        )
    sys.stdout.flush()
    return bool(result.findings)


def fuzz_functions(names: Sequence[str], minutes: float) -> bool:
    """Fuzz these targets, and print what became of each; return true when something was found."""
    if importlib.util.find_spec("atheris") is None:
        sys.stdout.write(f"left out, as atheris is not installed: {', '.join(names)}\n")
        return False
    found = False
    for name in names:
        share = TARGETS[name].share / sum(TARGETS[name].share for name in names)
        outcome = fuzz(name, max(1, round(60 * minutes * share)))
        sys.stdout.write(
            f"{name:<9} {outcome.executions:>9,} executions, coverage {outcome.coverage:>5,}, "
            f"{outcome.kept:>5,} inputs kept, {len(outcome.findings)} findings\n"
        )
        sys.stdout.writelines(f"          {path}\n" for path in outcome.findings)
        sys.stdout.flush()
        found = found or bool(outcome.findings) or not outcome.executions
    return found


def main() -> int:
    """Fuzz what was asked for; return 1 when something was found."""
    parser = argparse.ArgumentParser(
        prog="make fuzz", description="Fuzz a daemon, and the sources, the journal and the configuration."
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="time of the daemon, and of all others together")
    parser.add_argument("--only", choices=[DAEMON, *sorted(TARGETS)], help="one target")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="of what is done to the daemon")
    parser.add_argument("--within", type=float, default=WITHIN_S, help="seconds that an honest reading may wait")
    asked = parser.parse_args()
    names = [asked.only] if asked.only else [DAEMON, *TARGETS]
    functions = [name for name in names if name != DAEMON]
    found = DAEMON in names and attack_daemon(60 * asked.minutes, asked.seed, asked.within)
    found |= bool(functions) and fuzz_functions(functions, asked.minutes)
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
