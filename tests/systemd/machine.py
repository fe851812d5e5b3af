"""A machine with systemd as its first process: a tree booted by systemd-nspawn, entered with nsenter.

What it writes goes into a folder of its own above the tree, which stays as it was.
"""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.processes import until

STATUS = "http://127.0.0.1:8120/api/v1/status"
STOPPER = Path(__file__).parents[1] / "support" / "stopped_threads.py"


class Machine:
    """Boots, runs commands, loses its power. Needs root."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self._upper, self._work = folder / "upper", folder / "work"
        for place in (self.root, self._upper, self._work):
            place.mkdir()
        layers = f"lowerdir={tree},upperdir={self._upper},workdir={self._work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(self.root)], check=True)
        (self.root / "var/log/journal").mkdir(exist_ok=True)  # so that the log outlasts a boot
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0

    def boot(self) -> None:
        """Start it, and wait until systemd has started what it starts."""
        options = ("-b", "--register=no", "--keep-unit", "--private-network", "--console=pipe", "--link-journal=no")
        with (self.folder / "console").open("ab") as console:
            self._nspawn = subprocess.Popen(
                ["systemd-nspawn", "-D", str(self.root), *options],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        until(self._has_leader, f"the machine boots: {self.folder / 'console'}", 60)
        # Nothing that waits for triggerlog: a daemon without its database would keep the machine `starting`.
        until(lambda: self.run("systemctl", "is-active", "sysinit.target").stdout == "active\n", "it is up", 120)
        until(lambda: self.run("systemctl", "is-active", "dbus.socket").stdout == "active\n", "its bus is up", 120)

    def _has_leader(self) -> bool:
        assert self._nspawn is not None
        assert self._nspawn.poll() is None, (self.folder / "console").read_text(errors="replace")
        number = self._nspawn.pid
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        self._leader = int(children[0]) if children else 0
        return self._leader > 0 and Path(f"/proc/{self._leader}/comm").read_text() == "systemd\n"

    def run(self, *command: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command in it to its end."""
        return subprocess.run(
            self._inside(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def start(self, *command: str) -> "subprocess.Popen[str]":
        """Run a command in it beside the test."""
        return subprocess.Popen(
            self._inside(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def _inside(self, command: Sequence[str]) -> list[str]:
        enter = ("nsenter", "--target", str(self._leader), "--all", "/usr/bin/env", "-i")
        return [*enter, "PATH=/opt/triggerlog/.venv/bin:/usr/sbin:/usr/bin:/sbin:/bin", "COLUMNS=200", *command]

    def done(self, *command: str, timeout_s: float = 120) -> str:
        """Run a command that has to succeed; return what it says."""
        result = self.run(*command, timeout_s=timeout_s)
        assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}\n{self.journal()}"
        return result.stdout

    def shows(self, unit: str, *properties: str) -> dict[str, str]:
        """Properties of a unit."""
        said = self.done("systemctl", "show", unit, f"--property={','.join(properties)}")
        return dict(line.split("=", 1) for line in said.splitlines())

    def journal(self, *arguments: str) -> str:
        """What the units logged, as `journalctl` shows it."""
        return self.run("journalctl", "--no-pager", "-o", "cat", "-u", "triggerlog*", *arguments).stdout

    def until_logged(self, text: str, times: int = 1, timeout_s: float = 60) -> None:
        """Wait until the units have logged something, so many times."""
        until(lambda: self.journal().count(text) >= times, f"{text!r} {times} times in\n{self.journal()}", timeout_s)

    def status(self) -> dict:
        """What the daemon's API says."""
        ask = f"import urllib.request; print(urllib.request.urlopen('{STATUS}').read().decode())"
        enter = ("nsenter", "--target", str(self._leader), "--net")
        said = subprocess.run([*enter, sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout
        return json.loads(said)

    def outer_pid(self, inner: int) -> int:
        """The number that a process of the machine has outside of it."""
        for path in Path("/proc").glob("[0-9]*/status"):
            try:
                lines = dict(line.split(":", 1) for line in path.read_text().splitlines())
                numbers = lines["NSpid"].split()
                if len(numbers) > 1 and int(numbers[-1]) == inner and self._is_of_it(path):
                    return int(numbers[0])
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
        raise LookupError(f"no process {inner} in the machine")

    def _is_of_it(self, status: Path) -> bool:
        return (status.parent / "ns/pid").readlink() == Path(f"/proc/{self._leader}/ns/pid").readlink()

    def stop_threads(self, inner: int) -> "subprocess.Popen[str]":
        """Let all threads of a process but its first stand still, until they die or the returned process does."""
        command = [sys.executable, str(STOPPER), str(self.outer_pid(inner))]
        stopper = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert stopper.stdout is not None
        assert stopper.stdout.readline() == "stopped\n"
        return stopper

    def lose_power(self) -> None:
        """End every process in it at once."""
        assert self._nspawn is not None
        subprocess.run(["kill", "-KILL", str(self._leader)], check=True)
        self._nspawn.wait(60)
        self._nspawn = None

    def shut_down(self) -> None:
        """Stop it in order."""
        assert self._nspawn is not None
        subprocess.run(
            ["kill", f"-{signal.SIGRTMIN + 4}", str(self._leader)], check=True
        )  # systemd(1): poweroff.target
        self._nspawn.wait(180)
        self._nspawn = None

    def close(self) -> None:
        """Leave nothing behind."""
        if self._nspawn is not None:
            self.lose_power()
        subprocess.run(["umount", str(self.root)], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)
