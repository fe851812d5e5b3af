"""The state folder is for the daemon's user and group: nobody else can read a file in it."""

import asyncio
import os
import stat
from pathlib import Path

from daemon.client.sender import Sender
from tests.daemon.test_service import Daemon, configured, make
from tests.support.processes import Running, free_port


async def test_nobody_else_reads_a_file_of_the_state_folder(tmp_path: Path, postgresql_dsn: str, schema: str) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "events.jsonl").write_text("")
    (state / "events.jsonl").chmod(0o644)  # of an earlier version
    before = os.umask(0o022)
    try:
        with configured(tmp_path, postgresql_dsn, "rows", free_port(), f"closed_{schema}") as file:
            run = Running("run", str(file))
            try:
                daemon = await asyncio.to_thread(Daemon, run)
                async with await Sender.connect("127.0.0.1", daemon.port, "bpm") as sender:
                    await sender.send(make(sender, 1, 2, 3))
                    await sender.drain_acknowledged(60)
                    found = [*state.rglob("*")]
                    assert run.end() == 0
            finally:
                run.close()
    finally:
        os.umask(before)
    found = [path for path in {*found, *state.rglob("*")} if path.exists()]
    assert {"events.jsonl", "intake", "taken", "api-token"} <= {path.name for path in found}
    files = {path.name: oct(path.stat().st_mode) for path in found if path.is_file()}
    assert [name for name, mode in files.items() if int(mode, 8) & (stat.S_IRWXO | stat.S_IWGRP)] == []
    folders = [path for path in found if path.is_dir() and path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH)]
    assert folders == []
