"""Keys of conditions as a person reads them."""

from dashboard import zone
from dashboard.words import moment
from schemas.conditions.intervals import END, Key

LEAST_TIME_NS = 10**17
"""A minor key of at least so much, with the major key 0, is a time: it is in 1973."""

LARGEST_TIME_NS = 4 * 10**18
"""Up to the year 2096; what is beyond is a number."""


def key_words(key: Key) -> str:
    """A key: a time to the second where it is one, else both numbers."""
    if key == END:
        return "open"
    if key.major == 0 and LEAST_TIME_NS <= key.minor <= LARGEST_TIME_NS:
        return f"{moment(key.minor / 1e6)} {zone.label()}"
    return f"{key.major} {key.minor}"
