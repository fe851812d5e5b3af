"""The database of a drill: a throw-away server that may be killed, or one that the user named, which may not."""

from dataclasses import dataclass
from typing import Any

from backends.throwaway.base import ThrowawayServer


@dataclass(kw_only=True)
class Target:
    """Where a drill's daemon writes.

    settings: section [database] of its configuration, without the schema.
    server: None for a database that others may use.
    """

    settings: dict[str, Any]
    server: ThrowawayServer | None = None
