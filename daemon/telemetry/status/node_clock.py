"""Whether the node's own clock can be believed."""

import ctypes

UNSYNCHRONISED = 5
"""TIME_ERROR of adjtimex(2): no time server disciplines the clock."""
TIMEX_BYTES = 256
"""`struct timex` has 208 bytes on 64-bit Linux; all zero, its `modes` change nothing."""


def clock_is_synchronised() -> bool | None:
    """Whether the kernel calls the clock synchronised; None where it does not say."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    except (OSError, AttributeError):
        return None  # no Linux
    return None if state < 0 else bool(state != UNSYNCHRONISED)
