"""The worst instruments of a group: who was missing or late in the last triggers, or is not well now."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from dashboard.tabs.figures import RED
from dashboard.tabs.instruments.drawer import RECENT_S, STATE_WORDS
from dashboard.tabs.tables import Cell, Column, Row, cell, row
from dashboard.words import count, lasted, number
from schemas.api.readings import Missing
from schemas.states import STATE_LETTERS, InstrumentState

SHOWN = 25
"""Rows that each column can put first; a list of all instruments would be read by nobody."""

LATE = "readings that came after their trigger had closed, since the daemon started"
COLUMNS = [
    Column(name="name", label="Instrument", press=True, width=132),
    Column(name="state", label="State", words=True, width=124),
    Column(name="missing", label="Missing", sort="desc", width=124),
    Column(name="late", label="Late", title=LATE, width=64),
    Column(name="heard", label="Last heard", width=128),
    Column(name="strip", label="When, newest right", width=100, wide=True),
]
BADNESS = {letter: place for place, letter in enumerate(STATE_LETTERS)}
NEVER_S = 1e12
"""What an instrument is sorted by that was never heard: JSON has no infinity."""

BAR_HIGH, BAR_LEAST = 16, 3
"""Of a strip, in its units: its height, and that of a bar of one trigger, which is to be seen."""


@dataclass(frozen=True, kw_only=True)
class Bad:
    """An instrument that does badly.

    counts: from how many triggers of each range it was missing. late: readings since the daemon started.
    heard_s: seconds since its last reading, NEVER_S for never.
    """

    number: int
    letter: str
    counts: Sequence[int]
    late: int
    heard_s: float

    @property
    def missing(self) -> int:
        """From how many triggers it was missing."""
        return sum(self.counts)


ORDERS: tuple[Callable[[Bad], float], ...] = (
    lambda one: one.missing,
    lambda one: one.late,
    lambda one: one.heard_s,
    lambda one: BADNESS[one.letter],
)
"""Of the columns, the worst greatest."""


def worst(history: Missing, states: str) -> list[Bad]:
    """Whoever was missing or late, or is not well now, missing most first. states: a letter an instrument."""
    found = [
        Bad(
            number=place,
            letter=letter,
            counts=history.missing.get(str(place), ()),
            late=late,
            heard_s=NEVER_S if heard is None else heard,
        )
        for place, (letter, late, heard) in enumerate(zip(states, history.late, history.heard_s, strict=False))
    ]
    bad = [one for one in found if one.counts or one.late or STATE_LETTERS[one.letter] is not InstrumentState.OK]
    return sorted(bad, key=lambda one: -one.missing)


def leading(bad: Sequence[Bad], most: int = SHOWN) -> list[Bad]:
    """Those that are among the first by any column: a browser sorts only what it has."""
    first = {one.number for order in ORDERS for one in sorted(bad, key=order, reverse=True)[:most]}
    return [one for one in bad if one.number in first]


def worst_rows(bad: Sequence[Bad], history: Missing, names: Sequence[str]) -> list[Row]:
    """A row an instrument; its key is the instrument in the address."""
    return [_row(one, history, names[one.number]) for one in bad]


def worst_note(shown: int, bad: int, triggers: int) -> str:
    """How many of them are listed, and of how many triggers."""
    looked = f"{count(triggers)} triggers in the ledger"
    return f"{count(shown)} of {count(bad)} · {looked}" if bad > shown else looked


def _row(one: Bad, history: Missing, name: str) -> Row:
    glyph, words = STATE_WORDS[STATE_LETTERS[one.letter]]
    share = 100 * one.missing / history.triggers if history.triggers else 0
    missing = f"{count(one.missing)} · {number(share, 0 if share >= 10 else 1)} %" if one.missing else "0"
    return row(
        f"{history.group}:{one.number}",
        name=cell(name, one.number),
        state=cell(f"{glyph} {words.partition(':')[0]}", -BADNESS[one.letter]),
        missing=cell(missing, one.missing),
        late=cell(count(one.late), one.late),
        heard=cell(_heard(one.heard_s), one.heard_s),
        strip=_strip(one.counts, history.stretches.triggers),
    )


def _heard(seconds: float) -> str:
    if seconds >= NEVER_S:
        return "never"
    return "now" if seconds < RECENT_S else f"{lasted(seconds)} ago"


def _strip(counts: Sequence[int], sizes: Sequence[int]) -> Cell:
    """A cell with the strip behind it, which is sorted by when the instrument was missing last."""
    last = max((place for place, missing in enumerate(counts) if missing), default=-1)
    picture = f'url("data:image/svg+xml,{quote(strip_svg(counts, sizes))}")'
    return cell("", last, style={"backgroundImage": picture})


def strip_svg(counts: Sequence[int], sizes: Sequence[int]) -> str:
    """A bar a range of triggers, as high as the share of them that lack it: height shows it without colour."""
    bars = "".join(
        f"M{place}.5 {BAR_HIGH}v-{_high(missing / size):.3g}"
        for place, (missing, size) in enumerate(zip(counts, sizes, strict=False))
        if missing
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {max(1, len(sizes))} {BAR_HIGH}" '
        f'preserveAspectRatio="none"><path stroke="{RED}" stroke-width=".8" d="{bars}"/></svg>'
    )


def _high(share: float) -> float:
    return BAR_LEAST + (BAR_HIGH - BAR_LEAST) * min(1.0, share)
