"""The findings of the alarm in words: one line each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daemon.core.words import listing
from daemon.pipeline.instruments.desync.verdicts import Kind
from schemas.states import Severity


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is wrong with an instrument.

    triggers: how many its numbers are ahead of its timestamps (negative: behind); 0 when it is its clock.
    offset_ms: its timestamps less those of the others with the same trigger number.
    since_trigger: the number that its first such reading carried.
    """

    instrument: int
    kind: Kind
    triggers: int
    offset_ms: float
    since_trigger: int

    @property
    def what(self) -> tuple[Kind, int]:
        """What is reported of it: as long as that stays, there is nothing new."""
        return self.kind, self.triggers if self.kind is Kind.SLIPPED else 0


class Announcer:
    """Words what is new, once: many instruments in one line, and of one whose size keeps growing only the beginning."""

    def __init__(self, group: str, names: Sequence[str]) -> None:
        self._group, self._names = group, names
        self._reported: dict[int, Finding] = {}
        self._last: Mapping[int, Finding] = {}

    def lines(self, now: Mapping[int, Finding]) -> list[tuple[Severity, str]]:
        """What is new in the findings now: (severity, text)."""
        if not now and not self._reported:
            return []
        new = [finding for finding in now.values() if self._is_news(finding)]
        gone = [self._names[i] for i in self._reported if i not in now]
        self._reported = {i: self._reported[i] for i in self._reported if i in now} | {
            finding.instrument: finding for finding in new
        }
        self._last = now
        return [*self._found(new), *self._in_step(gone)]

    def _is_news(self, finding: Finding) -> bool:
        reported, last = self._reported.get(finding.instrument), self._last.get(finding.instrument)
        if reported is None:
            return True
        return reported.what != finding.what and last is not None and last.what == finding.what

    def _found(self, new: Sequence[Finding]) -> list[tuple[Severity, str]]:
        if not new:
            return []
        if len(new) == 1:
            text = sentence(self._names[new[0].instrument], new[0])
        else:
            sizes = (f"{self._names[finding.instrument]} ({_size(finding)})" for finding in new)
            text = f"{len(new):,} instruments are out of step with the others: {listing(sizes)}"
        return [(Severity.WARNING, f"group {self._group}: {text}")]

    def _in_step(self, gone: Sequence[str]) -> list[tuple[Severity, str]]:
        if not gone:
            return []
        return [
            (Severity.INFO, f"group {self._group}: {listing(gone)} {'is' if len(gone) == 1 else 'are'} in step again")
        ]


def sentence(name: str, finding: Finding) -> str:
    """One finding, as a person would say it."""
    since = f"since trigger {finding.since_trigger}"
    if finding.kind is Kind.CLOCK_OFF:
        way = "ahead of" if finding.offset_ms > 0 else "behind"
        return f"the clock of {name} is {abs(finding.offset_ms):,.1f} ms {way} the others {since}"
    if finding.kind is Kind.STUCK:
        return f"the trigger number of {name} stands still at {finding.since_trigger}"
    if finding.kind is Kind.IRREGULAR:
        return (
            f"the trigger numbers and timestamps of {name} do not go together {since}, by changing amounts"
            f" (the last {finding.triggers:+,}, {finding.offset_ms:+,.1f} ms): it counts wrongly, or its clock is"
            " unsteady"
        )
    count, way = abs(finding.triggers), "ahead of" if finding.triggers > 0 else "behind"
    return (
        f"{name} is {count:,} trigger{'s' if count != 1 else ''} {way} its timestamps ({finding.offset_ms:+,.1f} ms)"
        f" {since}: its numbers slipped, or its clock is off by just so much"
    )


def _size(finding: Finding) -> str:
    if finding.kind is Kind.CLOCK_OFF:
        return f"clock {finding.offset_ms:+,.1f} ms"
    if finding.kind is Kind.STUCK:
        return f"number stands still at {finding.since_trigger}"
    if finding.kind is Kind.IRREGULAR:
        return "changing amounts"
    return f"{finding.triggers:+,} trigger{'s' if abs(finding.triggers) != 1 else ''}"
