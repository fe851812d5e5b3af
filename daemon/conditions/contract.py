"""The shapes of the reference conditions database: what its clients read, field by field.

Times are UTC with six decimals and no zone. Names stand for what they name, except where the reference gives a number.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from schemas.conditions.intervals import (
    GlobalTag,
    Interval,
    Intervals,
    Key,
    PayloadList,
    PayloadType,
    TagStatus,
    ValidAt,
    comb_iov,
)

STATUS_IDS = {status: number for number, status in enumerate(TagStatus, start=1)}
"""The reference keeps statuses in a table that anybody may add to; here there are these three."""

FLAT = (
    *("payload_type_name", "payload_url", "checksum", "size", "major_iov", "minor_iov"),
    *("major_iov_end", "minor_iov_end", "revision"),
)
"""Names of the columns of a flat row. Nobody can set `revision` in the reference: it is null there, too."""


def moment(time_ns: int) -> str:
    """A time (ns since 1970-01-01 UTC) as the reference writes it."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest // 1000:06d}"


BUILT_IN = moment(0)
"""When the statuses were created: they are built in."""


def status(of: TagStatus) -> dict[str, Any]:
    """A status."""
    return {"id": STATUS_IDS[of], "name": of.value, "created": BUILT_IN}


def payload_type(of: PayloadType) -> dict[str, Any]:
    """A payload type."""
    return {"id": of.id, "name": of.name, "created": moment(of.created_ns)}


def created_tag(of: GlobalTag) -> dict[str, Any]:
    """A tag as its creation answers it."""
    return {
        "id": of.id,
        "name": of.name,
        "author": of.author or None,
        "status": of.status.value,
        "created": moment(of.created_ns),
        "updated": moment(of.updated_ns),
    }


def changed_tag(of: GlobalTag) -> dict[str, Any]:
    """A tag as a change of its status answers it: the status is a number there."""
    return created_tag(of) | {"status": STATUS_IDS[of.status]}


def tag_row(of: GlobalTag) -> dict[str, Any]:
    """A tag in the list of tags."""
    row = created_tag(of)
    ends = {"created": row.pop("created"), "updated": row.pop("updated")}
    return row | {"payload_lists_count": of.lists, "payload_iov_count": of.intervals} | ends


def tag_head(of: GlobalTag) -> dict[str, Any]:
    """A tag with everything in it, but for `payload_lists`, which is to be put before `created`."""
    return created_tag(of) | {"status": status(of.status) | {"description": None}}


def list_head(of: PayloadList) -> dict[str, Any]:
    """A list without its intervals."""
    return {
        "id": of.id,
        "name": of.name,
        "global_tag": of.tag,
        "payload_type": of.type,
        "created": moment(of.created_ns),
    }


def list_row(of: PayloadList) -> dict[str, Any]:
    """A list in a page of lists: it counts its intervals."""
    row = list_head(of)
    return row | {"iov_count": of.intervals, "created": row.pop("created")}


def interval(of: Interval) -> dict[str, Any]:
    """An interval."""
    return {
        "id": of.id,
        "payload_url": of.url,
        "checksum": of.checksum,
        "major_iov": of.start.major,
        "minor_iov": of.start.minor,
        "comb_iov": comb_iov(of.start),
        "major_iov_end": of.end.major,
        "minor_iov_end": of.end.minor,
        "payload_list": of.list,
        "inserted": moment(of.inserted_ns),
    }


def interval_row(of: Interval, owner: PayloadList | None) -> dict[str, Any]:
    """An interval in a page of intervals: with the names of its tag and type, and without `comb_iov`."""
    row = interval(of)
    inserted = row.pop("inserted")
    del row["comb_iov"]
    names = {"global_tag": owner and owner.tag, "payload_type": owner and owner.type}
    return row | names | {"inserted": inserted}


def each_interval(intervals: Intervals, name: str | None, within: slice = slice(None)) -> Iterator[Interval]:
    """The intervals of a list's columns, one by one."""
    starts, ends = intervals.starts[within], intervals.ends[within]
    columns = (
        *(intervals.ids[within].tolist(), intervals.urls[within], intervals.checksums[within]),
        *(intervals.sizes[within].tolist(), starts.tolist(), ends.tolist(), intervals.inserted_ns[within].tolist()),
    )
    for number, url, checksum, size, start, end, inserted_ns in zip(*columns, strict=True):
        yield Interval(
            id=number,
            url=url,
            checksum=checksum,
            size=None if size < 0 else size,
            start=Key(*start),
            end=Key(*end),
            list=name,
            inserted_ns=inserted_ns,
        )


def flat_rows(of_type: str, intervals: Intervals, within: slice) -> list[bytes]:
    """Rows of a list as `payloadiovs` answers them, each a piece of JSON; rendered a row in half a microsecond."""
    columns = (
        *(intervals.urls[within], intervals.checksums[within], intervals.sizes[within].tolist()),
        *(intervals.starts[within].tolist(), intervals.ends[within].tolist()),
    )
    return [
        orjson.dumps([of_type, url, checksum, None if size < 0 else size, *start, *end, None])
        for url, checksum, size, start, end in zip(*columns, strict=True)
    ]


def flat_row(of: ValidAt) -> list[Any]:
    """One row of `payloadiovs`."""
    found = of.interval
    return [of.type, found.url, found.checksum, found.size, *found.start, *found.end, None]


def as_objects(body: bytes) -> bytes:
    """The flat rows of an answer as objects (`shape=dict`)."""
    rows: list[list[Any]] = orjson.loads(body)
    return orjson.dumps([dict(zip(FLAT, row, strict=True)) for row in rows])


def page(rows: list[Mapping[str, Any]], count: int, number: int, size: int) -> dict[str, Any]:
    """A page of a list."""
    return {"count": count, "page": number, "page_size": size, "total_pages": -(-count // size) or 1, "results": rows}
