"""Fuzz everything, guided by coverage: `python -m tests.fuzz [--minutes 10] [--only tcp]`, or `make fuzz`.

The minutes are shared by the targets. What is found is left in `build/fuzz/TARGET-findings`: fix it, and keep the
input in `tests/fuzz/findings/TARGET`, where the tests run it ever after. What the fuzzer learned stays in
`build/fuzz/TARGET` for the next time.
"""

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.targets import FINDINGS, TARGETS

BUILD = Path(__file__).parent.parent.parent / "build" / "fuzz"


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


def main() -> int:
    """Fuzz what was asked for; return 1 when something was found."""
    parser = argparse.ArgumentParser(
        prog="make fuzz", description="Fuzz the sources, the journal and the configuration."
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="time in all")
    parser.add_argument("--only", choices=sorted(TARGETS), help="one target")
    asked = parser.parse_args()
    names = [asked.only] if asked.only else list(TARGETS)
    found = False
    for name in names:
        share = TARGETS[name].share / sum(TARGETS[name].share for name in names)
        outcome = fuzz(name, max(1, round(60 * asked.minutes * share)))
        sys.stdout.write(
            f"{name:<9} {outcome.executions:>9,} executions, coverage {outcome.coverage:>5,}, "
            f"{outcome.kept:>5,} inputs kept, {len(outcome.findings)} findings\n"
        )
        sys.stdout.writelines(f"          {path}\n" for path in outcome.findings)
        sys.stdout.flush()
        found = found or bool(outcome.findings) or not outcome.executions
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
