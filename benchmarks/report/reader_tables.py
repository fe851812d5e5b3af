"""Tables of what readers cost the writing, held back or not, and of what it costs to be looked at: pure functions."""

from collections.abc import Iterator

from benchmarks.measures.governor import ALONE, GOVERNED, READERS, ROOM
from benchmarks.measures.pages import RATE
from benchmarks.report.run import Audience, Block, Run
from benchmarks.report.table import Table, aim, text
from benchmarks.rounds.summary import ratio, spread

DOUBLED = 2.0
"""Readers that do not at least double commit p99 say nothing of the governor."""

MOST_TIMES_ALONE = 1.1
"""CPU of a daemon that is looked at, against that of one that is not: next to nothing."""


def governor(run: Run) -> Table | None:
    """Writing during reading, with the governor and without; None where it was not measured."""
    blocks = {block.name: block for block in run.blocks}
    if blocks.keys() != {ALONE, READERS, GOVERNED}:
        return None
    rows = tuple((name, *_block(blocks[name], blocks[ALONE])) for name in (ALONE, READERS, GOVERNED))
    least, most = min(blocks[ALONE].ceiling_ms), max(blocks[ALONE].ceiling_ms)
    return Table(
        title="The governor",
        columns=(
            "",
            "p99 ms",
            "/ alone",
            "aim",
            "reached",
            "within",
            "sender p99 ms",
            "triggers/s",
            "answers/s",
            "dose",
        ),
        rows=rows,
        note=f"{blocks[READERS].clients} clients that scan everything or ask for half an hour's means, each again as "
        f"soon as it has its answer. The governor's ceiling was {ROOM:g} times the p99 of the block of writing alone "
        f"just before: {least:.1f} to {most:.1f} ms. p99 is that of commits in the daemon's status, over ten seconds"
        " each; a block's is the median of its samples, and the table has medians of the blocks. Within is the part of"
        " the samples in which it was within that ceiling. The sender's is of a whole block, from the write of a"
        " trigger to its acknowledgement. The dose is the mean number of clients that might ask.",
    )


def _block(block: Block, alone: Block) -> Iterator[str]:
    yield text(spread(block.p99_ms), "{:.2f}")
    if block is alone:
        yield from ("", "", "")
    else:
        found = ratio(block.p99_ms, alone.p99_ms)
        yield text(found, "{:.2f}")
        wanted, at_least = (DOUBLED, True) if block.name == READERS else (ROOM, False)
        yield from aim(found.median, wanted, at_least=at_least)
    yield f"{100 * spread(block.within).median:.0f} %"
    yield f"{spread(block.sender_p99_ms).median:.2f}"
    yield f"{spread(block.rates).median:.1f}"
    yield "" if block is alone else f"{spread(block.answers).median:.2f}"
    yield "" if block is alone else f"{spread(block.dose).median:.2f}"


def audiences(run: Run) -> Table | None:
    """CPU and traffic by audience; None where it was not measured."""
    if not run.audiences:
        return None
    alone = next((audience for audience in run.audiences if not audience.pages), None)
    return Table(
        title="What pages and browsers cost",
        columns=(
            "",
            "daemon, % of a core",
            "/ no page",
            "aim",
            "reached",
            "pages, % of a core",
            "frames/s a browser",
            "kB/s a browser",
        ),
        rows=tuple((_watching(audience), *_audience(audience, alone)) for audience in run.audiences),
        note=f"{RATE} triggers/s come in all the time. A browser is a context of its own in one Chromium and shows the"
        " Live tab; bytes are those of the frames and of whatever else it loads while it looks. Pages are taken"
        " together; the CPU of Chromium is not in it.",
    )


def _watching(audience: Audience) -> str:
    if not audience.pages:
        return "no page"
    pages = "a page" if audience.pages == 1 else f"{audience.pages} pages"
    counted = {0: "no browser", 1: "1 browser"}.get(audience.browsers, f"{audience.browsers} browsers")
    return f"{pages}, {counted}"


def _audience(audience: Audience, alone: Audience | None) -> Iterator[str]:
    yield text(spread(audience.daemon_percent), "{:.1f}")
    if alone is None or alone is audience:
        yield from ("", "", "")
    else:
        found = ratio(audience.daemon_percent, alone.daemon_percent)
        yield text(found, "{:.2f}")
        yield from aim(found.median, MOST_TIMES_ALONE, at_least=False)
    yield text(spread(audience.page_percent), "{:.1f}") if audience.pages else ""
    yield f"{spread(audience.frames).median:.2f}" if audience.browsers else ""
    yield text(spread(audience.bytes_).scaled(1e-3), "{:.1f}") if audience.browsers else ""
