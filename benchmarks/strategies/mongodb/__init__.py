"""The counterparts of the paper's ways with MongoDB, each waiting for the journal (`j`) and not."""

from functools import partial

from benchmarks.strategies.mongodb import document_a_trigger, insert_many, insert_one
from benchmarks.strategies.strategy import Strategy, in_both_durabilities

HALF = "No transaction: readers may see half-written triggers, and a crash may leave one."

STRATEGIES = in_both_durabilities(
    Strategy(
        slug="insert_one",
        title="120 insert_one, a document a reading",
        write=insert_one.write,
        safe=False,
        note=HALF,
    ),
    Strategy(
        slug="insert_many",
        title="one insert_many of 120 documents",
        write=insert_many.write,
        safe=False,
        note=HALF,
    ),
    Strategy(
        slug="document_a_trigger",
        title="one insert_one, a document a trigger",
        write=document_a_trigger.write,
    ),
    asynchronous="j false",
    note="Not crash safe: the journal is flushed within 100 ms.",
    write_async=lambda strategy: partial(strategy.write, journal=False),
)
