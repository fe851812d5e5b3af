"""The archive of experiments: `state_dir/interference/ID.json` and ID.html."""

from pathlib import Path

from daemon.workloads.frame.archive import Files, RunArchive
from daemon.workloads.interference.command_line import readers_words
from schemas.api.interference import Ratio, Record, Result, Summary

FOLDER = "interference"
REPORT = ".html"


def experiment_archive(state_dir: Path) -> RunArchive[Record, Summary]:
    """The archive of a daemon."""
    return RunArchive(state_dir / FOLDER, Record, summary_of)


def summary_of(record: Record, files: Files) -> Summary:
    """A line of the list."""
    result, settings = record.result, record.settings
    return Summary(
        id=record.id,
        began_ns=record.began_ns,
        state=record.state,
        problem=record.problem,
        readers=readers_words(settings),
        pairs=settings.pairs,
        block_s=settings.block_s,
        doses=list(settings.doses),
        blocks=sum(block.counts for block in record.blocks),
        p99=_ratio(result, "p99_ms"),
        rate=_ratio(result, "rate"),
        steady=result.steady if result else None,
        headline=result.headline if result else "",
        report=REPORT in files,
    )


def _ratio(result: Result | None, figure: str) -> Ratio | None:
    rows = [row for row in (result.rows if result else []) if row.figure == figure]
    return max(rows, key=lambda row: row.readers).b_to_a if rows else None
