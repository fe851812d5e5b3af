"""The result of a drill, for the terminal and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from daemon.tools.drill.count import Count
from daemon.tools.drill.system import Recovery


@dataclass(frozen=True, kw_only=True)
class Result:
    """One row.

    sent, acknowledged, refused: readings, by the senders. count: by the database; None when it could not be asked.
    failures: after how many it was to recover. recoveries: one for each recovery.
    problem: why the drill did not end as planned, in one line; situation: what was logged last, in many.
    skipped: why it did not run. notes: further remarks.
    """

    name: str
    title: str
    sent: int = 0
    acknowledged: int = 0
    refused: int = 0
    count: Count | None = None
    failures: int = 0
    recoveries: tuple[Recovery, ...] = ()
    problem: str | None = None
    situation: str = ""
    skipped: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing was lost, doubled or otherwise wrong; also true of a drill that was skipped."""
        return self.skipped is not None or not self.faults

    @property
    def faults(self) -> list[str]:
        """The faults, one text each."""
        counted = [f"{count} {name}" for name, count in (self.count.faults if self.count else {}).items()]
        if self.refused:
            counted.append(f"{self.refused} refused")
        if self.problem is None and self.acknowledged < self.sent:
            counted.append(f"{self.sent - self.acknowledged} not acknowledged")
        if self.problem is None and len(self.recoveries) != self.failures:
            counted.append(f"{len(self.recoveries)} recoveries after {self.failures} failures")
        return [*counted, *([self.problem] if self.problem else [])]

    @property
    def verdict(self) -> str:
        """One line."""
        if self.skipped is not None:
            return f"skipped: {self.skipped}"
        return "; ".join([*(self.faults or ["nothing lost, nothing doubled"]), *self.notes])

    def worst(self, name: str) -> float | None:
        """The longest of its recoveries, in seconds."""
        return max((getattr(recovery, name) for recovery in self.recoveries), default=None)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "passed": self.passed, "verdict": self.verdict}


def table(results: Sequence[Result]) -> Table:
    """All rows; recovery is the worst of a drill, counted from when the database (or the daemon) was back."""
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), expand=False)
    shown.add_column("drill")
    for name in ("sent", "acknowledged", "found", "lost", "doubled", "recovered", "drained"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("")
    for result in results:
        word, style = _word(result)
        shown.add_row(result.title, *_figures(result), Text(word, style))
    return shown


def _word(result: Result) -> tuple[str, str]:
    if result.skipped is not None:
        return "skipped", "yellow"
    return ("passed", "green") if result.passed else ("FAILED", "bold red")


def _figures(result: Result) -> list[str]:
    if result.skipped is not None:
        return [""] * 7
    counted = [result.count.found, result.count.lost, result.count.doubled] if result.count else []
    figures = [f"{number:,}" for number in (result.sent, result.acknowledged, *counted)]
    figures += ["?"] * (5 - len(figures))
    return figures + [_seconds(result.worst(name)) for name in ("first_s", "drained_s")]


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"
