"""Who asks: counts by client over a minute, bounded."""

from daemon.conditions.clients import MOST, SLICE_S, SLICES, RecentUses, Use, Uses, agent_of


class Clock:
    """Seconds that a test moves on."""

    def __init__(self) -> None:
        self.s = 1_000_000.0

    def __call__(self) -> float:
        return self.s


def uses(**requests: int) -> Uses:
    """What clients of these addresses have asked, 10 bytes a request."""
    return Uses(by_client={(name, "curl"): Use(many, 10 * many) for name, many in requests.items()})


def test_a_client_is_an_address_and_what_it_calls_itself() -> None:
    counted = Uses()
    for address, agent, nbytes in (("a", "x", 5), ("a", "y", 6), ("a", "x", 7), ("b", "", 0)):
        counted.count((address, agent), nbytes)
    assert counted.by_client == {("a", "x"): Use(2, 12), ("a", "y"): Use(1, 6), ("b", ""): Use(1, 0)}
    assert counted.others == Use()


def test_of_too_many_clients_none_is_lost_and_none_kept() -> None:
    counted = Uses()
    for number in range(10 * MOST):
        counted.count((f"10.0.0.{number}", "curl"), 3)
    counted.count(("10.0.0.0", "curl"), 3)
    assert len(counted.by_client) == MOST
    assert counted.by_client["10.0.0.0", "curl"] == Use(2, 6)
    assert counted.others == Use(9 * MOST, 27 * MOST)


def test_who_asks_most_is_told_apart_however_many_ask_once() -> None:
    recent = RecentUses(Clock())
    for report in range(20):
        few = {f"passer_by_{report}_{number}": 1 for number in range(MOST - 1)}
        recent.add(uses(farm=50, **few))
    told = recent.told()
    assert len(told.clients) == MOST
    assert (told.clients[0].address, told.clients[0].requests, told.clients[0].bytes) == ("farm", 1000, 10_000)
    assert sum(each.requests for each in told.clients) + told.others.requests == 20 * (50 + MOST - 1)
    assert sum(each.bytes for each in told.clients) + told.others.bytes == 200 * (50 + MOST - 1)


def test_what_was_asked_a_minute_ago_is_forgotten() -> None:
    clock = Clock()
    recent = RecentUses(clock)
    recent.add(uses(early=7))
    clock.s += SLICE_S
    recent.add(uses(late=2, early=1))
    told = recent.told()
    assert [(each.address, each.requests) for each in told.clients] == [("early", 8), ("late", 2)]
    assert told.over_s == SLICE_S
    clock.s += (SLICES - 1) * SLICE_S
    told = recent.told()
    assert [(each.address, each.requests) for each in told.clients] == [("late", 2), ("early", 1)]
    assert told.over_s <= SLICES * SLICE_S
    clock.s += SLICE_S
    assert recent.told().clients == []
    assert not recent._slices


def test_a_user_agent_is_shown_without_what_cannot_be_read() -> None:
    assert agent_of("curl/8.5 (é)") == "curl/8.5 (é)"
    assert agent_of("a\x1b[2Jb\x00") == "a?[2Jb?"
    assert agent_of("") == ""
