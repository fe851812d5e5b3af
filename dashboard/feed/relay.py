"""What browsers ask of the daemon through the page: once for all of them, and only while somebody looks."""

import re
from typing import TypeVar

from fastapi import Response
from pydantic import BaseModel

from dashboard.feed.client import DaemonApi, DaemonUnavailable, detail_of, read

RUN = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,80}")
"""An id of a run, as far as the page knows it."""

FILES = {
    "interference": {"report": "text/html"},
    "visits": {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "report": "text/html"},
}
"""By workload what the daemon has of a run, by the last part of its address, and its media type."""

REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox allow-same-origin"
)
"""A report is a picture with words: it runs no script and asks nobody."""

M = TypeVar("M", bound=BaseModel)


class NotThere(Exception):
    """The daemon knows nothing of what was asked; the message is its line."""


async def answer_of(api: DaemonApi, model: type[M], path: str, /, **asked: int | str) -> M:
    """Ask the daemon.

    Raises:
        DaemonUnavailable: it does not answer, or not with what was asked.
        NotThere: it answers that there is nothing.
    """
    answer = await api.ask(path, **asked)
    if answer.status_code == 404:
        raise NotThere(detail_of(answer))
    return read(answer, model, api.named)


async def file_of(api: DaemonApi, workload: str, run: str, kind: str) -> Response:
    """A file of a run, as the daemon has it: a report to be looked at, the others to be saved."""
    if kind not in FILES.get(workload, {}) or not RUN.fullmatch(run):
        return plain_answer(404, f"there is no {kind} of a run {run!r}")
    try:
        answer = await api.fetch(f"/{workload}/{run}/{kind}")
    except DaemonUnavailable as problem:
        return plain_answer(502, str(problem))
    if not answer.is_success:
        return plain_answer(answer.status_code, detail_of(answer))
    saved = {"Content-Disposition": f'attachment; filename="{workload}-{run}.{kind}"'}
    shown = {"Content-Security-Policy": REPORT_POLICY}
    return Response(answer.content, 200, shown if kind == "report" else saved, FILES[workload][kind])


def plain_answer(status: int, line: str) -> Response:
    """One line for the eyes, that nobody keeps."""
    return Response(line, status, {"Cache-Control": "no-store"}, "text/plain")
