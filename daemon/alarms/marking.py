"""Marks of alarms: where decimation is to leave what lies around an alarm, its begin and its end become marks.

The invariant: an alarm that is in force for `LASTED_S` or longer has one mark at its begin for each group that it is
about, whenever the daemon or the database ends, and one at its end where a daemon saw that. What is to be marked is
remembered before it is marked, with the marks and their ids: to order one again after a kill makes no second one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import NAMESPACE_URL, uuid5

from daemon.alarms.alarm import Alarm, Severity
from daemon.alarms.board import AlarmBoard, Cleared, InForce, Marked, Memory, has_gone_on
from schemas.config import Config
from schemas.decimation import SECOND_NS
from schemas.marks import TEXT_MOST, Mark, is_shown
from schemas.states import AlarmCause

LASTED_S = 10.0
"""What lasted less is no event, and has no mark: at each start a daemon waits for its database and its instruments."""

AGAIN_S = 60.0
"""One alarm that comes and goes has no more marks than one in this time, or in that which stays around each."""


@dataclass(frozen=True, kw_only=True)
class Marking:
    """What a configuration asks for.

    causes: of the alarms that become marks; None is those that are critical. groups: those whose readings are reduced.
    again_s: one alarm makes no more than one mark in this time.
    """

    logger: str = ""
    causes: frozenset[AlarmCause] | None = None
    groups: frozenset[str] = frozenset()
    again_s: float = AGAIN_S

    @classmethod
    def of(cls, config: Config) -> "Marking":
        """What this one asks for."""
        asked = config.reductions
        windows_s = [each.window_ns / SECOND_NS for each in asked.values()]
        causes = config.decimation.mark_alarms
        return cls(
            logger=config.logger,
            causes=None if causes is None else frozenset(causes),
            groups=frozenset(asked),
            again_s=max([AGAIN_S, *windows_s]),
        )

    def of_alarm(self, alarm: Alarm) -> tuple[str | None, ...]:
        """The groups that get a mark of an alarm; None is all of them."""
        is_wanted = alarm.severity is Severity.CRITICAL if self.causes is None else alarm.cause in self.causes
        if not (is_wanted and self.groups):
            return ()
        return tuple(name for name in alarm.groups if name in self.groups) if alarm.groups else (None,)


class AlarmMarker:
    """Tells which marks alarms make; does no I/O.

    before: what was remembered before a restart.
    """

    def __init__(self, marking: Marking, before: Memory | None = None) -> None:
        self._marking = marking
        before = before or Memory()
        self._saved_s = before.saved_s
        self._marked = dict(before.marked)
        self._returning = set(before.marked)
        self._newest_s: dict[str, float] = {key: each.since_s for key, each in before.marked.items()}
        self.waiting: dict[str, Mark] = {str(mark.id): mark for mark in before.marks}

    def change(self, marking: Marking) -> None:
        """Tell by this from now on."""
        self._marking = marking

    def look(self, board: AlarmBoard, cleared: Iterable[Cleared]) -> bool:
        """Take in the alarms as a board has them now, and those that went; whether there is something to remember."""
        before = len(self.waiting), len(self._marked)
        for gone in cleared:
            if (marked := self._marked.pop(gone.key, None)) is not None:
                self._returning.discard(gone.key)
                self._add(gone.key, marked, gone.ended_s, f"alarm cleared: {gone.text}")
        for each in board.in_force():
            self._see(each, board.now_s)
        if board.is_settled:
            # These went while no daemon looked.
            for key in self._returning - board.seen():
                self._returning.discard(key)
                self._marked.pop(key, None)
        return before != (len(self.waiting), len(self._marked))

    def placed(self, mark: Mark) -> None:
        """The mark is made, or never will be."""
        self.waiting.pop(str(mark.id), None)

    def memory(self) -> Mapping[str, object]:
        """The fields of `Memory` that are its."""
        return {"marked": dict(self._marked), "marks": tuple(self.waiting.values())}

    def _see(self, each: InForce, now_s: float) -> None:
        alarm = each.alarm
        known = self._marked.get(alarm.key)
        if known is not None and alarm.key in self._returning:
            if has_gone_on(alarm, known.since_s, now_s - self._saved_s):
                self._returning.discard(alarm.key)
            else:
                known = None
        groups = self._marking.of_alarm(alarm)
        if known is not None or not groups or each.lasted_s < LASTED_S:
            return
        if abs(now_s - self._newest_s.get(alarm.key, -self._marking.again_s)) < self._marking.again_s:
            return
        self._returning.discard(alarm.key)
        marked = self._marked[alarm.key] = Marked(since_s=each.since_s, groups=groups)
        self._add(alarm.key, marked, each.since_s, f"alarm: {alarm.text}")

    def _add(self, key: str, marked: Marked, at_s: float, text: str) -> None:
        self._newest_s[key] = at_s
        for group in marked.groups:
            time_ns = round(at_s * SECOND_NS)
            name = f"triggerlog alarm {self._marking.logger} {key} {group} {marked.since_s!r} {time_ns}"
            mark = Mark(
                id=uuid5(NAMESPACE_URL, name), time_ns=time_ns, text=_line(text), author="triggerlog", group=group
            )
            self.waiting[str(mark.id)] = mark


def _line(text: str) -> str:
    """Text as a mark may have it."""
    whole = "".join(letter if is_shown(letter) else " " for letter in text)
    return whole if len(whole) <= TEXT_MOST else f"{whole[: TEXT_MOST - 1]}…"
