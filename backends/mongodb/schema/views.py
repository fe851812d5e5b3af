"""The view that shows a reading a document in both layouts, with names and native dates.

Made where the server knows views. The tests look at its stages alone: no server that knows views runs them here.
"""

from typing import Any

from bson import Int64

from backends.columns.stored import MISSING_OFFSET
from schemas.batch import Layout
from schemas.readings import InstrumentGroup

NS_IN_MS = 1_000_000


def readings_view(group: InstrumentGroup, layout: Layout) -> dict[str, Any]:
    """The options of `create` for the view of a group's readings."""
    return {"viewOn": group.name, "pipeline": [*_spread(group, layout), {"$project": _columns(group)}]}


def _spread(group: InstrumentGroup, layout: Layout) -> list[dict[str, Any]]:
    """Stages after which a document is a reading."""
    if layout is Layout.ROWS:
        return []
    elements = {c.name: {"$arrayElemAt": [f"${c.name}", "$instrument"]} for c in group.channels}
    time_ns = {"$add": ["$time_ns", "$time_offset_ns"]}
    return [
        {"$unwind": {"path": "$time_offset_ns", "includeArrayIndex": "instrument"}},
        {"$match": {"time_offset_ns": {"$ne": Int64(MISSING_OFFSET)}}},
        # Of one stage, so that each of its expressions sees what the documents had.
        {"$set": {**elements, "time_ns": time_ns, "trigger_time_ns": "$time_ns"}},
    ]


def _columns(group: InstrumentGroup) -> dict[str, Any]:
    kept = ("run", "trigger_id", "instrument", "time_ns", "trigger_time_ns", *(c.name for c in group.channels))
    return {
        "_id": 0,
        **dict.fromkeys(kept, 1),
        "name": {"$arrayElemAt": [list(group.instruments), "$instrument"]},
        "time": {"$toDate": {"$toLong": {"$floor": {"$divide": ["$time_ns", NS_IN_MS]}}}},
    }
