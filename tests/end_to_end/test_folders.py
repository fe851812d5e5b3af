"""Folders in a real daemon: the database stopped and started, the daemon killed, and a limit that a reload changes."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from daemon.client.api.asking import DaemonGone
from daemon.client.api.folders import FoldersApi, folders_api
from daemon.client.api.reach import Reach
from schemas.api.folders import FolderColumn, NewFolder
from schemas.folders.blocks import OPEN
from schemas.folders.folders import Column, block_dtype
from schemas.readings import Array
from tests.end_to_end.test_journal import own_server
from tests.support.processes import GROUP, LISTENERS, Running, running, until

pytestmark = pytest.mark.slow

PATH = "/magnets/current"
DTYPE = block_dtype((Column(name="ampere", dtype="float64"),))
NEW = NewFolder(
    path=PATH,
    columns=(FolderColumn(name="ampere", dtype="float64"),),
    channels={number: f"Q{number}" for number in range(100)},
)
T = TypeVar("T")


@contextmanager
def serving(folder: Path, dsn: str, more: str = "") -> Iterator[tuple[Running, Reach]]:
    file = folder / "beam.toml"
    database = f'[database]\ndsn = "{dsn}"\ncommand_timeout_s = 5.0\n'
    file.write_text(f"{GROUP}{LISTENERS.format(api=0)}{database}[folders]\nserve = true\ntimeout_s = 5.0\n{more}")
    with running("run", str(file)) as run:
        url = run.until_said(r"API at (http://\S+)")[1]
        yield run, Reach(url=url, token=(folder / "state" / "api-token").read_text().strip())


async def asked(reach: Reach, question: Callable[[FoldersApi], Awaitable[T]]) -> T:
    async with folders_api(reach) as api:
        return await question(api)


async def until_answered(reach: Reach, question: Callable[[FoldersApi], Awaitable[T]]) -> T:
    """Ask again while the daemon refuses: its database is away."""
    async with asyncio.timeout(120), folders_api(reach) as api:
        while True:
            try:
                return await question(api)
            except DaemonGone:
                await asyncio.sleep(0.2)


def reports(number: int) -> Array:
    """One open interval of each channel, which ends the one before."""
    block = np.zeros(100, DTYPE)
    block["channel"], block["since"], block["until"], block["ampere"] = np.arange(100), 10 * number, OPEN, number
    return block


async def see_stored(reach: Reach, count: int) -> None:
    """See that each channel has `count` intervals, one after the other."""
    for channel in ("Q0", "Q99"):
        found = await until_answered(reach, lambda api, channel=channel: api.history(PATH, channel))
        assert found["ampere"].tolist() == list(range(1, count + 1))
        assert found["since"].tolist() == [10 * number for number in range(1, count + 1)]
        assert found["until"].tolist() == [*(10 * number for number in range(2, count + 1)), OPEN]


async def test_insertions_survive_an_outage_and_the_kill_of_the_daemon_and_none_is_there_twice(tmp_path: Path) -> None:
    async with own_server() as (server, dsn):
        with serving(tmp_path, dsn) as (run, reach):
            await until_answered(reach, lambda api: api.add_folder(NEW))
            for number in (1, 2, 3):
                told = await asked(reach, lambda api, n=number: api.insert(PATH, reports(n), source="ramp", sequence=n))
                assert told.inserted
            await server.stop()
            with pytest.raises(DaemonGone, match="answers 503: the database is away"):
                await asked(reach, lambda api: api.snapshot(PATH))
            with pytest.raises(DaemonGone, match="answers 503: the database is away"):
                await asked(reach, lambda api: api.insert(PATH, reports(4), source="ramp", sequence=4, follows=3))
            await server.start()
            await until_answered(reach, lambda api: api.insert(PATH, reports(4), source="ramp", sequence=4, follows=3))
            await see_stored(reach, 4)
            # Whether it was stored before the end, the client does not learn.
            going = asyncio.create_task(
                asked(reach, lambda api: api.insert(PATH, reports(5), source="ramp", sequence=5, follows=4))
            )
            await asyncio.sleep(0.01)
            assert run.end(signal.SIGKILL) == -signal.SIGKILL
            await asyncio.gather(going, return_exceptions=True)
        with serving(tmp_path, dsn) as (run, reach):
            await until_answered(reach, lambda api: api.insert(PATH, reports(5), source="ramp", sequence=5, follows=4))
            await see_stored(reach, 5)
            again = await asked(reach, lambda api: api.insert(PATH, reports(5), source="ramp", sequence=5, follows=4))
            assert not again.inserted
            assert run.end() == 0, run.said


async def test_a_daemon_takes_readings_before_its_folders_are_open_and_a_reload_changes_the_limit(
    tmp_path: Path,
) -> None:
    async with own_server() as (server, dsn):
        await server.stop()
        with serving(tmp_path, dsn, "answer_mib = 0.1\n") as (run, reach):
            with pytest.raises(DaemonGone, match="answers 503: the folders are not open: "):
                await asked(reach, lambda api: api.tree())
            await server.start()
            await until_answered(reach, lambda api: api.add_folder(NEW))
            block = np.zeros(10_000, DTYPE)
            block["since"], block["until"] = np.arange(10_000), np.arange(10_000) + 1
            await asked(reach, lambda api: api.insert(PATH, block, source="ramp", sequence=1))
            with pytest.raises(DaemonGone, match=r"raise `answer_mib` in \[folders\]"):
                await asked(reach, lambda api: api.history(PATH, "Q0"))
            file = tmp_path / "beam.toml"
            text = file.read_text()
            file.write_text(text.replace("answer_mib = 0.1", "answer_mib = 1.0"))
            run.process.send_signal(signal.SIGHUP)
            until(lambda: "folders.answer_mib has changed" in run.said, "the configuration is read again")
            assert len(await until_answered(reach, lambda api: api.history(PATH, "Q0"))) == 10_000
            assert run.end() == 0, run.said
