"""Reloading: which fields differ, which are taken over, and a daemon that gets SIGHUP."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel

from daemon.core.configuration.reload import RELOADABLE, applicable, differences
from daemon.pipeline.committer import longest_attempt_s
from schemas.checking.fields import keys, sections_of
from schemas.config import Config, parse_config
from tests.support.pipelines import eventually, logging_to_memory
from tests.support.processes import GROUP, LISTENERS, Daemon, running
from tests.support.readings import make_block, make_group, whole
from tests.support.service_manager import Ear

BASE = """
[[groups]]
name = "bpm"
count = 3
channels = [{ name = "x" }]

[[sources]]
kind = "tcp"

[[sources]]
kind = "udp"
"""


def changed(text: str, base: str = BASE) -> tuple[list[str], list[str]]:
    """Fields that differ from the base, and those of them that need a restart."""
    old, new = parse_config(base), parse_config(text)
    merged = applicable(old, new)
    return list(differences(old, new)), list(differences(merged, new))


def test_nothing_differs_from_itself() -> None:
    assert changed(BASE) == ([], [])


def test_what_can_change_does_and_the_rest_needs_a_restart() -> None:
    more = "[assembly]\ntimeout_ms = 20.0\nmax_open = 100\n[database]\nschema = 'other'\n"
    assert changed(BASE + more) == (
        ["database.schema", "assembly.timeout_ms", "assembly.max_open"],
        ["database.schema", "assembly.max_open"],
    )


def test_a_source_is_named_by_its_place() -> None:
    text = BASE.replace('kind = "tcp"', 'kind = "tcp"\nmax_connections = 7\nport = 9000')
    assert changed(text) == (["sources[0].port", "sources[0].max_connections"], ["sources[0].port"])


def test_other_groups_or_sources_need_a_restart_as_a_whole() -> None:
    assert changed(BASE.replace('kind = "udp"', 'kind = "simulated"\ngroup = "bpm"'))[1] == ["sources[1]"]
    assert changed(BASE.replace('[[sources]]\nkind = "udp"\n', ""))[1] == ["sources"]
    assert changed(BASE.replace("count = 3", "count = 4"))[1] == ["groups[0].count"]


def group(name: str, more: str = "") -> str:
    return f'[[groups]]\nname = "{name}"\ncount = 3\nchannels = [{{ name = "x" }}]\n{more}\n'


def kept(days: float) -> str:
    return f"retention = {{ keep_days = {days} }}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (group("bpm", kept(3650)) + group("blm", kept(7)), group("blm", kept(7)) + group("bpm", kept(3650))),
        (group("bpm", kept(3650)), group("blm", kept(7)) + group("bpm", kept(3650))),
        ("[retention]\nkeep_days = 3650\n" + group("bpm"), "[retention]\nkeep_days = 7\n" + group("ict")),
        (
            "[retention]\nkeep_days = 3650\n" + group("bpm"),
            "[retention]\nkeep_days = 7\n" + group("bpm", kept(3650)) + group("blm"),
        ),
        (group("bpm"), "[decimation]\nafter_days = 3\nbucket_s = 1\n" + group("blm") + group("bpm")),
    ],
    ids=["in another order", "one more before", "another", "one more, and days of their own", "reduced"],
)
def test_what_is_kept_of_a_group_is_never_what_the_file_says_of_another(old: str, new: str) -> None:
    before, after = parse_config(old), parse_config(new)
    merged = applicable(before, after)
    assert (merged.groups, merged.retention, merged.decimation) == (before.groups, before.retention, before.decimation)
    assert set(differences(merged, after)) == set(differences(before, after))
    same = parse_config(old.replace("3650", "365"))
    assert applicable(before, same) == same


def test_limits_of_a_source_are_never_those_of_another() -> None:
    inside, outside = (
        f'[[sources]]\nkind = "tcp"\nport = {port}\nmax_connections = {most}\n' for port, most in ((81, 8), (82, 900))
    )
    before, after = parse_config(BASE + inside + outside), parse_config(BASE + outside + inside)
    assert applicable(before, after).sources == before.sources
    less = parse_config(BASE + inside.replace("= 8\n", "= 4\n") + outside)
    assert applicable(before, less) == less


FAST, SLOW, TAPE = (f'[[tiers]]\nname = "{name}"\n' for name in ("fast", "slow", "tape"))
IN_SLOW, IN_TAPE, IN_SSD = (f'tablespace = "{name}"\n' for name in ("slow", "tape", "ssd"))
ACCESS = "[tiering]\npolicy = 'access'\n"


@pytest.mark.parametrize(
    "new",
    [
        ACCESS + FAST + "max_gib = 90\n" + SLOW + IN_SSD + "max_gib = 5\n" + TAPE + IN_TAPE,
        ACCESS + FAST + "max_gib = 9\n" + TAPE + IN_TAPE + "max_gib = 5\n" + SLOW + IN_SLOW,
        ACCESS + FAST + "max_gib = 9\n" + SLOW + IN_SLOW,
        FAST + SLOW + IN_SLOW + "after_days = 3\n",
        "",
    ],
    ids=["another place", "in another order", "one less", "by age, one less", "none"],
)
def test_limits_of_tiers_are_never_those_of_others_and_go_with_their_policy(new: str) -> None:
    old = ACCESS + FAST + "max_gib = 90\n" + SLOW + IN_SLOW + "max_gib = 900\n" + TAPE + IN_TAPE
    before, after = parse_config(BASE + old), parse_config(BASE + new)
    merged = applicable(before, after)
    assert (merged.tiers, merged.tiering) == (before.tiers, before.tiering)
    assert set(differences(merged, after)) == set(differences(before, after))
    days = FAST + SLOW + IN_SLOW + "after_days = 3\n" + TAPE + IN_TAPE + "after_days = 30\n"
    by_age = parse_config(BASE + days)
    assert applicable(before, by_age) == by_age


@pytest.mark.parametrize(("old", "new"), [(0.0, 64.0), (64.0, 0.0)])
def test_whether_there_is_a_journal_is_settled_at_the_start(old: float, new: float) -> None:
    base = f"{BASE}[journal]\nmax_mib = {old}\n"
    assert changed(f"{BASE}[journal]\nmax_mib = {new}\n", base)[1] == ["journal.max_mib"]


def fields_of(section: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in keys(section).items():
        is_list = get_origin(field.annotation) is tuple
        at = f"{path}{name}[]" if is_list else f"{path}{name}"
        inner = sections_of(get_args(field.annotation)[0] if is_list else field.annotation)
        yield from (found for part in inner for found in fields_of(part, f"{at}."))
        if not inner:
            yield at


def test_every_field_that_can_change_is_one_of_the_configuration() -> None:
    assert set(fields_of(Config)) >= RELOADABLE


def test_the_document_names_the_fields_that_can_change() -> None:
    text = (Path(__file__).parents[4] / "systemd/README.md").read_text()
    listed = text.partition("change while the daemon runs: ")[2].partition(". Each other")[0]
    assert set(re.findall(r"`([^`]+)`", listed)) == RELOADABLE


# --- what takes it over -------------------------------------------------------------------------------------------


def config_with(**sections: dict[str, float]) -> Config:
    groups = [{"name": "unused", "count": 1, "channels": [{"name": "x"}]}]
    return Config.model_validate({"groups": groups, **sections})


async def test_open_triggers_close_after_the_new_timeout() -> None:
    group = make_group()
    async with logging_to_memory(group, assembly={"timeout_ms": 600_000.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        pipeline.receive(whole(group, 1))
        pipeline.receive(make_block(group, [(2, 0)]))
        assert pipeline.figures().open == 1
        pipeline.change(config_with(assembly={"timeout_ms": 10.0}))
        await eventually(lambda: pipeline.figures().committed.triggers == 2)


async def test_more_memory_ends_backpressure_and_less_begins_it() -> None:
    group = make_group()
    small, large = {"max_batch_mib": 0.02, "max_waiting_mib": 0.04}, {"max_waiting_mib": 64.0}
    async with logging_to_memory(group, committer=small) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        trigger = 1
        while not pipeline.is_full:
            pipeline.receive(whole(group, trigger))
            trigger += 1
        pipeline.change(config_with(committer=large))
        assert not pipeline.is_full
        pipeline.change(config_with(committer=small))
        assert pipeline.is_full


async def test_the_committer_and_the_watch_take_over_their_settings() -> None:
    group = make_group()
    async with logging_to_memory(group) as logger:
        pipeline = logger.pipelines["bpm"]
        new = config_with(
            committer={"max_batch_mib": 1.0, "retry_first_ms": 2.0, "retry_most_ms": 3000.0}, alarms={"stale_s": 0.001}
        )
        pipeline.receive(make_block(group, [(1, i) for i in range(group.size)]))
        pipeline.change(new)
        committer = pipeline._committer
        attempts = committer.attempts
        assert (committer._max_batch, attempts._first_s, attempts._most_s) == (2**20, 0.002, 3.0)
        assert {part.extra_s for part in pipeline.parts()} == {0.0, longest_attempt_s(new)}
        await eventually(lambda: pipeline.figures().committed.triggers == 1)
        seen_ns = time.monotonic_ns()
        await eventually(lambda: time.monotonic_ns() > seen_ns + 10_000_000)
        pipeline.look()
        pipeline.receive(make_block(group, [(2, i) for i in range(group.size - 1)]))
        pipeline.end()
        assert pipeline.instruments.figures(time.monotonic_ns()).states == "oooos"


# --- a daemon -----------------------------------------------------------------------------------------------------


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    listening = Ear(tmp_path / "notify")
    yield listening
    listening.close()


def test_a_daemon_reads_its_configuration_again(ear: Ear, state_dir: Path) -> None:
    state_dir.mkdir(parents=True)
    file, text = state_dir / "beam.toml", GROUP + LISTENERS.format(api=0)
    file.write_text(text)
    with running("run", str(file), NOTIFY_SOCKET=ear.name) as run:
        daemon = Daemon(run, file)
        assert daemon.status()["limits"]["stale_s"] == 2.0
        file.write_text(f"{text}\n[alarms]\nstale_s = 7.5\n[database]\npartitions_ahead = 3\n")
        run.process.send_signal(signal.SIGHUP)
        run.until_said(r"the configuration was read again: 2 changed fields")
        assert "alarms.stale_s has changed, and is used from now on" in run.said
        assert "database.partitions_ahead has changed in the file; it needs a restart, the old one is used" in run.said
        assert daemon.status()["limits"]["stale_s"] == 7.5
        ear.until_heard("READY", times=2)
        assert ear.heard("RELOADING") == ["1"]
        assert all(re.fullmatch("[0-9]+", said) for said in ear.heard("MONOTONIC_USEC"))

        file.write_text(f"{text}\n[alarms]\nstale_s = -1\n")
        run.process.send_signal(signal.SIGHUP)
        run.until_said(r"the configuration stays as it was: alarms.stale_s")
        ear.until_heard("READY", times=3)
        assert daemon.status()["limits"]["stale_s"] == 7.5
        assert daemon.status()["state"] == "running"

        file.write_text(text.replace("count = 12", "count = 13"))
        run.process.send_signal(signal.SIGHUP)
        run.until_said(r"groups\[0\].count has changed in the file; it needs a restart")
        run.until_said(r"a restart would fail, the old configuration is used: database: .*12")

        file.unlink()
        run.process.send_signal(signal.SIGHUP)
        run.until_said(r"the configuration stays as it was: \S+beam.toml: cannot be read")
        assert run.end(signal.SIGTERM) == 0, run.said
        assert "Traceback" not in run.said
