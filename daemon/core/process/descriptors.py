"""File descriptors: as many as the process may have, and some kept back for what is not a sender."""

import resource

RESERVED = 64
"""Descriptors that no sender gets: for the API, the database, the journal and messages, whatever connects."""

WANTED = 1 << 20
"""More than this is never needed; a limit of "unlimited" makes some programs walk through all of them."""


def raise_limit() -> int:
    """Raise the limit of open files (RLIMIT_NOFILE) as far as the process may by itself; return what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return limit()


def limit() -> int:
    """How many files the process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED if soft == resource.RLIM_INFINITY else soft


def for_senders() -> int:
    """The highest descriptor, exclusive, that a sender's connection may have.

    The kernel always gives the lowest free number, so that a higher one means that nearly all are taken.
    """
    return max(limit() - RESERVED, limit() // 2)
