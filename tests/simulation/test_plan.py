"""Plans, and how they shrink."""

import itertools

from tests.simulation.plan import (
    ANNOUNCED_FROM,
    AT_ONCE,
    DAEMON,
    DARK_FROM,
    DEFECTS,
    DISK,
    LEAVING,
    LEAVING_FROM,
    LETTERS_FROM,
    MACHINE,
    NETWORK,
    RESTARTS,
    STORE,
    Plan,
    draw,
)
from tests.simulation.shrinking import shrink


def test_a_plan_is_the_same_for_the_same_seed_and_survives_as_text() -> None:
    for seed in range(1, 30):
        plan = draw(seed)
        assert plan == draw(seed)
        assert Plan.from_json(plan.to_json()) == plan
    assert draw(1) != draw(2)


def test_all_kinds_of_events_are_drawn() -> None:
    drawn = {event.kind for seed in range(1, 300) for event in draw(seed).events}
    assert drawn == set(DAEMON) | set(NETWORK) | set(DISK) | set(STORE) | set(MACHINE) | set(AT_ONCE)


def test_the_mix_of_restarts_has_several_within_the_time_out_and_an_instrument_that_sends_anything() -> None:
    drawn, together = set[str](), 0
    for seed in range(1, 200):
        plan = draw(seed, mix=RESTARTS)
        assert Plan.from_json(plan.to_json()) == plan
        drawn |= {event.kind for event in plan.events}
        at_s = [event.at_s for event in plan.events if event.kind == "restart_numbers"]
        within_s = plan.settings.timeout_ms / 1e3
        together += any(later - earlier <= within_s for earlier, later in itertools.pairwise(at_s))
        odd = {event.settings["instrument"] for event in plan.events if event.kind == "odd"}
        assert 2 * len(odd) < plan.settings.instruments
    others = {*DAEMON, *NETWORK, *DISK, *STORE, *MACHINE} - {"move"}
    assert drawn == others | {"odd", "announce", "clocks", "no_clocks", *DEFECTS}
    assert together > 100


def test_taking_an_event_out_leaves_the_others() -> None:
    plan = next(plan for plan in map(draw, range(1, 100)) if len(plan.events) > 5)
    assert plan.without({1}).events == (plan.events[0], *plan.events[2:])
    assert plan.without({1}).stream("network 1").random() == plan.stream("network 1").random()
    assert plan.stream("network 1").random() != plan.stream("disk 1").random()


def test_a_failing_plan_shrinks_to_what_it_needs() -> None:
    plan = next(plan for plan in map(draw, range(1, 100)) if len(plan.events) > 8)
    wanted = (plan.events[2], plan.events[6])
    asked: list[Plan] = []

    def fails(smaller: Plan) -> bool:
        asked.append(smaller)
        return all(event in smaller.events for event in wanted)

    small = shrink(plan, fails)
    assert small.events == wanted
    assert small.settings.missing == 0.0
    assert small.settings.duration_s <= wanted[1].at_s + 0.6
    assert len(asked) < 200


def test_in_plans_of_high_seeds_daemons_die_while_the_database_is_away() -> None:
    for seed in range(DARK_FROM, DARK_FROM + 50):
        events = draw(seed).events
        away = [(event.at_s, event.at_s + event.settings["for_s"]) for event in events if event.kind == "outage"]
        deaths = [event.at_s for event in events if event.kind in {"kill", "cut_power", "restart", "move"}]
        assert any(start <= at_s <= end for start, end in away for at_s in deaths)


def test_in_plans_of_higher_seeds_senders_say_goodbye() -> None:
    plans = [draw(seed) for seed in range(LEAVING_FROM, LEAVING_FROM + 20)]
    assert set(LEAVING) <= {event.kind for plan in plans for event in plan.events}


def test_in_plans_of_the_highest_seeds_dead_letters_are_retried_and_discarded() -> None:
    plans = [draw(seed) for seed in range(LETTERS_FROM, LETTERS_FROM + 20)]
    assert {"retry", "discard"} <= {event.kind for plan in plans for event in plan.events}


def test_in_plans_of_the_mix_of_restarts_daemons_die_around_an_announcement() -> None:
    for seed in range(ANNOUNCED_FROM, ANNOUNCED_FROM + 40, 2):
        plan = draw(seed, mix=RESTARTS)
        (restarted,) = (event for event in plan.events if event.kind == "restart_numbers")
        (announced,) = (event for event in plan.events if event.kind == "announce")
        assert 0 < announced.at_s - restarted.at_s < restarted.settings["pause_s"]
        assert {event.kind for event in plan.events} & {"kill", "cut_power", "restart"}
        assert not plan.settings.epochs
