"""The server's own view, without and with readers: pure."""

from collections.abc import Callable, Mapping, Sequence

from schemas.api.interference import Block, ServerRow


def server_rows(blocks: Sequence[Block]) -> list[ServerRow]:
    """Counters a second, those of the server that ever moved, by name; and the part of cache lookups that hit."""
    # Growth is of two looks; a block without them says nothing, and is not one in which nothing moved.
    looked = [block for block in blocks if block.looks > 1]
    return _rows(looked, lambda block: {**block.server, **_hits(block.server)}, absent=None)


def processor_rows(blocks: Sequence[Block]) -> list[ServerRow]:
    """How busy the daemon and the machine were, in percent."""
    return _rows(blocks, lambda block: {"daemon": block.cpu_percent, "machine": block.machine_percent}, absent=0.0)


def wait_rows(blocks: Sequence[Block]) -> list[ServerRow]:
    """Sessions that waited, on average, by what for; the most of them with readers first."""
    looked = [block for block in blocks if block.looks]
    return sorted(_rows(looked, lambda block: block.waits, absent=0.0), key=lambda row: (-row.b, -row.a, row.name))


def _hits(server: Mapping[str, float]) -> dict[str, float]:
    looked = server.get("cache_hits", 0.0) + server.get("cache_misses", 0.0)
    return {"cache_hit_percent": 100 * server["cache_hits"] / looked} if looked and "cache_hits" in server else {}


def _rows(
    blocks: Sequence[Block], of: Callable[[Block], Mapping[str, float]], *, absent: float | None
) -> list[ServerRow]:
    """absent: what a block has of a name that it does not tell of; None where that is not known."""
    kinds = [[of(block) for block in blocks if block.kind == kind] for kind in "AB"]
    names = sorted({name for kind in kinds for found in kind for name, value in found.items() if value})
    rows = []
    for name in names:
        told = [[found.get(name, absent) for found in kind] for kind in kinds]
        a, b = ([value for value in values if value is not None] for values in told)
        if a and b:
            mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
            rows.append(ServerRow(name=name, a=mean_a, b=mean_b, ratio=mean_b / mean_a if mean_a else None))
    return rows
