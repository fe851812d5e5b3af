"""Tables of a report as plain text."""

from benchmarks.report.model import Report


def rows_of(report: Report, title: str) -> list[tuple[str, ...]]:
    """The rows of a table: what is small print stands in brackets."""
    (found,) = [table for table in report.tables() if table.title == title]
    return [
        tuple(
            cell if isinstance(cell, str) else f"{cell.text} ({cell.small})" if cell.small else cell.text
            for cell in row
        )
        for row in found.rows
    ]
