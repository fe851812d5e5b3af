"""Dead letters by their cause: a line a cause, however many letters it has."""

from collections.abc import Collection, Iterator, Sequence

from daemon.pipeline.closed_blocks import words_of
from daemon.pipeline.dead_letters import Letter
from daemon.tools.dead_letters.export import clock


def lines_of(groups: Sequence[tuple[str, Sequence[Letter]]], reporting: Collection[str] = ()) -> Iterator[str]:
    """List the letters of groups: for each cause a line with how many, below it the reason and an example; the total.

    groups: name and letters of each, in the order in which they were kept. reporting: those that report on change.
    """
    causes = [(name, alike) for name, letters in groups for alike in _by_cause(letters)]
    for name, alike in causes:
        reports = name in reporting
        yield f"{name}: {_amount(alike, [] if reports else alike)}{_span(alike, reports=reports)}"
        yield f"    {alike[0].reason}"
        if alike[0].detail:
            yield f"    for example {words_of(alike[0].key, reports=reports)}: {alike[0].detail}"
    of_triggers = [letter for name, alike in causes if name not in reporting for letter in alike]
    yield f"total: {_amount([letter for _, alike in causes for letter in alike], of_triggers)}"


def _by_cause(letters: Sequence[Letter]) -> list[list[Letter]]:
    """Letters of the same cause together, in the order of the first of each."""
    causes: dict[tuple[bool, str], list[Letter]] = {}
    for letter in letters:
        causes.setdefault((letter.is_aside, letter.reason), []).append(letter)
    return list(causes.values())


def _amount(letters: Sequence[Letter], of_triggers: Sequence[Letter]) -> str:
    # The numbers of a run are those of its group, which has a folder of its own.
    triggers = len({(letter.path.parent, letter.key) for letter in of_triggers if not letter.is_aside})
    readings = sum(letter.readings for letter in letters)
    aside = sum(letter.readings for letter in of_triggers if letter.is_aside)
    of = f" {counted(triggers, 'trigger')}," if triggers else ""
    which = f"{aside:,} of them " if aside < readings else ""
    without = f" ({which}for no trigger that is known)" if aside else ""
    return f"{counted(len(letters), 'letter')},{of} {counted(readings, 'reading')}{without}"


def _span(letters: Sequence[Letter], *, reports: bool) -> str:
    kept = sorted(letter.kept_ns for letter in letters)
    since = clock(kept[0]) if kept[0] == kept[-1] else f"{clock(kept[0])} to {clock(kept[-1])}"
    triggers = min(letters, key=_key), max(letters, key=_key)
    return f"{'' if letters[0].is_aside or reports else f'; {_from_to(*triggers)}'}; kept {since}"


def _key(letter: Letter) -> tuple[int, int]:
    return letter.key


def _from_to(first: Letter, last: Letter) -> str:
    (run, trigger), (last_run, last_trigger) = first.key, last.key
    if first.key == last.key:
        return words_of(first.key, reports=False)
    if run == last_run:
        return f"triggers {trigger} to {last_trigger} of run {run}"
    return f"trigger {trigger} of run {run} to {last_trigger} of run {last_run}"


def counted(count: int, noun: str) -> str:
    """How many of something."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
