"""What stays as it is: stretches of time around marks."""

from collections.abc import Iterable
from dataclasses import replace

from schemas.retention import Span


def merged(spans: Iterable[tuple[int, int]]) -> list[Span]:
    """Spans in order of their begin, (start_ns, end_ns) each, without those that touch: these are one."""
    found: list[Span] = []
    for start_ns, end_ns in spans:
        if found and start_ns <= found[-1].end_ns:
            found[-1] = replace(found[-1], end_ns=max(found[-1].end_ns, end_ns))
        else:
            found.append(Span(start_ns=start_ns, end_ns=end_ns))
    return found
