"""Which encodings of an answer a client accepts."""

from functools import lru_cache


@lru_cache(maxsize=64)
def takes_gzip(accepted: str) -> bool:
    """Whether a client would have an answer compressed with gzip, rather than as it is (RFC 9110, 12.5.3).

    accepted: its Accept-Encoding; empty where it sent none.
    """
    weights = dict(filter(None, map(_weighed, accepted.lower().split(","))))
    gzip = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


def _weighed(member: str) -> tuple[str, float] | None:
    """A coding and its weight, 1 where none is given; None where the weight is no number of 0 to 1."""
    coding, *parameters = (part.strip() for part in member.split(";"))
    for name, _, value in (parameter.partition("=") for parameter in parameters):
        if name.strip() == "q":
            weight = value.strip()
            is_number = weight.replace(".", "", 1).isdecimal() and weight.isascii() and len(weight) <= 5
            return (coding, float(weight)) if is_number and float(weight) <= 1 else None
    return coding, 1.0
