"""Which connection each session has: a newer one takes the place of the older, whichever source it comes in by."""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from daemon.pipeline.pipeline import Pipeline
    from daemon.sources.tcp.connection import Connection

_OF_PIPELINE: "WeakKeyDictionary[Pipeline, dict[int, Connection]]" = WeakKeyDictionary()


def connected(pipeline: "Pipeline") -> "MutableMapping[int, Connection]":
    """The connections of a pipeline's sessions, by `schemas.sessions.session_key`; all sources share them."""
    return _OF_PIPELINE.setdefault(pipeline, {})
