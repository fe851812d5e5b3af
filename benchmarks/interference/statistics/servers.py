"""The server's own view, without and with readers: pure."""

from collections.abc import Callable, Mapping, Sequence

from schemas.api.interference import Block, ServerRow


def server_rows(blocks: Sequence[Block]) -> list[ServerRow]:
    """Counters a second, those of the server that ever moved, by name; and the part of cache lookups that hit."""
    # Growth is of two looks; a block without them says nothing, and is not one in which nothing moved.
    return _rows([block for block in blocks if block.looks > 1], lambda block: {**block.server, **_hits(block.server)})


def processor_rows(blocks: Sequence[Block]) -> list[ServerRow]:
    """How busy the daemon and the machine were, in percent."""
    return _rows(blocks, lambda block: {"daemon": block.cpu_percent, "machine": block.machine_percent})


def wait_rows(blocks: Sequence[Block]) -> list[ServerRow]:
    """Sessions that waited, on average, by what for; the most of them with readers first."""
    looked = [block for block in blocks if block.looks]
    return sorted(_rows(looked, lambda block: block.waits), key=lambda row: (-row.b, -row.a, row.name))


def _hits(server: Mapping[str, float]) -> dict[str, float]:
    looked = server.get("cache_hits", 0.0) + server.get("cache_misses", 0.0)
    return {"cache_hit_percent": 100 * server["cache_hits"] / looked} if looked and "cache_hits" in server else {}


def _rows(blocks: Sequence[Block], of: Callable[[Block], Mapping[str, float]]) -> list[ServerRow]:
    without = [of(block) for block in blocks if block.kind == "A"]
    with_readers = [of(block) for block in blocks if block.kind == "B"]
    if not without or not with_readers:
        return []
    names = sorted({name for found in (*without, *with_readers) for name, value in found.items() if value})
    rows = []
    for name in names:
        a, b = (sum(found.get(name, 0.0) for found in kind) / max(1, len(kind)) for kind in (without, with_readers))
        rows.append(ServerRow(name=name, a=a, b=b, ratio=b / a if a else None))
    return rows
