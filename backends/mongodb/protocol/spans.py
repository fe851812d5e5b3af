"""Stretches of triggers: from which to which, by run."""

import numpy as np

from backends.mongodb.protocol.documents import keys_of, turned_back
from schemas.readings import Array

STRETCH = np.dtype([("run", "<i4"), ("first", "<i8"), ("last", "<i8")])


def widened(known: Array, runs: Array, triggers: Array) -> Array:
    """The first and the last trigger of each run, of what is known and of others: `STRETCH`, a row a run."""
    runs = np.concatenate([known["run"], known["run"], runs])
    triggers = np.concatenate([known["first"], known["last"], triggers])
    found = np.empty(len(np.unique(runs)), STRETCH)
    for row, run in zip(found, np.unique(runs), strict=True):
        mine = triggers[runs == run]
        row["run"], row["first"], row["last"] = run, mine.min(), mine.max()
    return found


def widened_by_ids(known: Array, ids: Array) -> Array:
    """The same of the `_id`s of readings' documents (void, shape (n,))."""
    keys = keys_of(ids)
    return widened(known, keys["run"], turned_back(keys["trigger"]))


def widened_by(known: Array, more: Array) -> Array:
    """The same of two such answers."""
    runs, triggers = np.concatenate([more["run"], more["run"]]), np.concatenate([more["first"], more["last"]])
    return widened(known, runs, triggers)
