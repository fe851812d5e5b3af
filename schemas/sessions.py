"""Sessions: numbered streams of readings, each of one sender, that go on across connections."""

import hashlib
from typing import Any

import numpy as np

SESSION: np.dtype[Any] = np.dtype([("session", "<u8"), ("settled", "<i8"), ("received", "<i8"), ("seen_s", "<u4")])
"""How far a session is (28 bytes).

session: `session_key` of it. settled: readings with lower numbers are settled; GONE ends the session. received: no
reading with this number or a higher one has come; what lies between the two is in doubt after a crash; the greatest
int64 where nobody knows. seen_s: when
that changed last, in s since 1970-01-01 UTC.
"""

GONE = -1
NO_SESSIONS = np.empty(0, SESSION)

PRIVATE = 1 << 63
"""The keys of sessions that the daemon began by itself, for readings whose sender has none, have this bit."""

_SESSION_BITS = 40


def session_key(sender: str, session: int) -> int:
    """The key of a sender's session, 63 bits: 23 of the sender, and 40 of the session.

    Of 100 sessions of one sender two have the same with a probability of 5e-9.
    """
    return _digest(sender, 3) >> 1 << _SESSION_BITS | _digest(f"{sender} {session}", 5)


def is_private(key: int) -> bool:
    """Whether the daemon began this session: nobody goes on with it over another connection."""
    return bool(key & PRIVATE)


def may_be_of_one_sender(key: int, other: int) -> bool:
    """Whether two keys may be of sessions of the same sender; those of two others may by one chance in 8 million."""
    return key >> _SESSION_BITS == other >> _SESSION_BITS


def _digest(text: str, nbytes: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("ascii"), digest_size=nbytes).digest(), "little")
