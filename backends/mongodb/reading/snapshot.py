"""Every instrument's value valid at a moment."""

from contextlib import aclosing

from backends.columns.reductions import Newest
from backends.columns.stored import SLACK_NS
from backends.mongodb.reading import documents
from backends.mongodb.reading.documents import LEAST, MOST
from backends.mongodb.reading.group import GroupReader
from schemas.queries import Snapshot
from schemas.readings import Array


async def snapshot(group: GroupReader, query: Snapshot) -> Array:
    """Answer Snapshot; `answer_dtype(group)`, by instrument: back in time until no earlier trigger can say more."""
    newest = Newest(query)
    if query.within_ns < 1:
        return newest.found
    start_ns = max(query.at_ns - query.within_ns, LEAST - 1) + 1
    wanted = documents.around(start_ns, min(query.at_ns + 1, MOST))
    if not group.server.uses_indexes:
        # Whatever is asked, all there is is gone through: once is enough.
        await _back(group, newest, wanted, LEAST)
        return newest.found
    reached_ns = await _back(group, newest, wanted, query.at_ns - 2 * SLACK_NS)
    unsettled = newest.missing(reached_ns + SLACK_NS)
    if unsettled and reached_ns > LEAST:
        # What is still to be found may be dead for long: from here on only triggers that have it are read.
        wanted["time_ns"]["$lte"] = reached_ns
        await _back(group, newest, {**wanted, **documents.having(unsettled)}, LEAST)
    return newest.found


async def _back(group: GroupReader, newest: Newest, wanted: documents.Filter, enough_ns: int) -> int:
    """Take readings until all are settled or from before `enough_ns`; return up to which time, or LEAST for all."""
    async with aclosing(group.chunks(wanted, documents.LATEST_FIRST)) as chunks:
        async for earliest_ns, readings in chunks:
            newest.add(readings)
            if earliest_ns < enough_ns or not newest.missing(earliest_ns + SLACK_NS):
                return earliest_ns
    return LEAST
