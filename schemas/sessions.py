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


def session_key(sender: str, session: int) -> int:
    """The key of a sender's session, 64 bits: of 10,000 sessions two have the same with a probability of 3e-12."""
    return int.from_bytes(hashlib.blake2b(f"{sender} {session}".encode("ascii"), digest_size=8).digest(), "little")
