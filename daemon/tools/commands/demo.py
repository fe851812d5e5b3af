"""`triggerlog demo`: three processes until Ctrl-C."""

import asyncio
import contextlib
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from backends.base import StoreError
from backends.files import FolderInUse, FolderLock
from daemon.client.api.asking import DaemonGone, ask_status
from daemon.core.outcome import CommandFailed, examples, file_words
from daemon.core.process.children import Child
from daemon.tools.console import make_console
from schemas.conditions.intervals import Key
from schemas.conditions.rules import ConditionsRefused
from schemas.states import DaemonState

EPILOG = examples("triggerlog demo", "triggerlog demo --rate 100 --state /var/tmp/triggerlog")


def demo(
    state: Annotated[Path, typer.Option(help="Folder for the database and the logs of the demonstration.")] = Path(
        "state"
    ),
    rate: Annotated[float, typer.Option(min=0.1, max=10_000, help="Triggers a second of the simulated machine.")] = 10,
    free_ports: Annotated[bool, typer.Option("--free-ports", help="Use any free ports, not 8120 to 8123.")] = False,
) -> None:
    """Run a demonstration until Ctrl-C: a daemon, a sender with 120 instruments, and the page."""
    asyncio.run(Demo(state=state.absolute(), rate=rate, free_ports=free_ports, console=make_console()).run())


CONFIGURATION = """\
# Written by `triggerlog demo` at every start; copy it to make it yours.
logger = "demo"
state_dir = "."

[[groups]]
name = "bpm"
count = {instruments}
channels = [
    {{ name = "top_in", unit = "count", dtype = "int32" }},
    {{ name = "bot_in", unit = "count", dtype = "int32" }},
    {{ name = "bot_out", unit = "count", dtype = "int32" }},
    {{ name = "top_out", unit = "count", dtype = "int32" }},
]

[[sources]]
kind = "tcp"
port = {readings}

[api]
port = {api}

[dashboard]
port = {page}

[conditions]
serve = true
port = {conditions}
payloads = "payloads"
tag = "demo"
"""

INSTRUMENTS = 120
HOST = "127.0.0.1"
USES = {"api": "control API", "page": "page", "readings": "readings over TCP", "conditions": "conditions"}
DEFAULT_PORTS = {"api": 8120, "page": 8121, "readings": 8122, "conditions": 8123}
CALIBRATED_FROM = (Key(0, 0), Key(1, 100))
"""Keys (run, trigger) from which a calibration is valid: the first 100 triggers of a new demonstration have another one
than all others."""
READY_S = 120.0  # a first start makes the database: seconds, but a busy machine may take many times that
POLL_S = 0.1  # pause between two checks whether a process answers


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Where the processes listen, on this machine only."""

    api: int
    page: int
    readings: int
    conditions: int

    @property
    def api_url(self) -> str:
        """Address of the control API."""
        return f"http://{HOST}:{self.api}"

    @property
    def page_url(self) -> str:
        """Address of the page."""
        return f"http://{HOST}:{self.page}"

    @property
    def conditions_url(self) -> str:
        """Address of the server of conditions."""
        return f"http://{HOST}:{self.conditions}"


class Demo:
    """The three processes; `run` returns when they were stopped, and raises when one of them fails."""

    def __init__(self, *, state: Path, rate: float, free_ports: bool, console: Console) -> None:
        self._state = state
        self._free_ports = free_ports
        self._rate = rate
        self._console = console
        self._stop = asyncio.Event()
        self._children: list[Child] = []

    async def run(self) -> None:
        """Start everything, print the addresses, and watch it until Ctrl-C or SIGTERM.

        Raises:
            CommandFailed: a process does not start, or ends by itself; the others are stopped.

        """
        self._make_state()
        with _alone(self._state), _signals(self._stop):
            ports = choose_ports({} if self._free_ports else DEFAULT_PORTS, self._console)
            try:
                if await self._start(ports):
                    self._console.print(self._welcome(ports))
                    await self._watched(self._stop.wait())
            finally:
                await self._end()

    def _make_state(self) -> None:
        try:
            (self._state / "logs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise CommandFailed(f"cannot make {self._state} ({reason}); name another folder with --state") from None

    async def _start(self, ports: Ports) -> bool:
        """Start one after the other, each when those before it are ready; False when stopped before that."""
        config = self._state / "demo.toml"
        config.write_text(CONFIGURATION.format(instruments=INSTRUMENTS, **asdict(ports)), encoding="utf-8")
        self._console.print("Starting the daemon and its PostgreSQL (the first time it makes the database) ...")
        await self._spawn("daemon", "-m", "daemon", "run", str(config))
        async with httpx.AsyncClient(base_url=ports.api_url, timeout=5, trust_env=False) as client:
            if not await self._watched(_ready(client)):
                return False
        await self._spawn("sender", "-m", "daemon", "simulate", *self._sender_options(ports))
        page = ["--daemon", ports.api_url, "--host", HOST, "--port", str(ports.page)]
        await self._spawn("page", "-m", "dashboard", *page)
        async with httpx.AsyncClient(base_url=ports.page_url, timeout=5, trust_env=False) as client:
            return await self._watched(asyncio.gather(_answers(client), self._calibrate(config)))

    async def _calibrate(self, config: Path) -> None:
        """Store calibrations, while the page starts; without them the rest of the demonstration works all the same."""
        # Imported here: the tables take as long as a process takes to start.
        from daemon.core.configuration import load_config  # noqa: PLC0415
        from daemon.tools.conditions.calibrations import store_calibrations  # noqa: PLC0415

        try:
            await store_calibrations(load_config(config), CALIBRATED_FROM)
        except (StoreError, ConditionsRefused) as error:
            why = str(error)
        except OSError as error:
            why = file_words(error)
        else:
            return
        self._console.print(Text(f"Orbits are not calibrated: {why}", "yellow"), soft_wrap=True)

    def _sender_options(self, ports: Ports) -> list[str]:
        # A few faults, so that the page has something to show.
        faults = ["--jitter-ms", "5", "--missing", "0.002", "--late", "0.001"]
        to = ["--host", HOST, "--port", str(ports.readings), "--group", "bpm", "--connections", "each"]
        # The numbers begin at 1 each time: the simulated timing system was restarted.
        return [*to, "--rate", f"{self._rate:g}", "--epoch", str(int(time.time())), *faults]

    async def _spawn(self, name: str, *arguments: str) -> None:
        log = self._state / "logs" / f"{name}.log"
        self._children.append(await Child.start(name, [sys.executable, *arguments], log))

    async def _watched(self, awaited: Awaitable[object]) -> bool:
        """Wait for something while watching the processes; False when stopped before it happened."""
        goal = asyncio.ensure_future(awaited)
        stop = asyncio.ensure_future(self._stop.wait())
        ends = {asyncio.ensure_future(child.ended()): child for child in self._children}
        try:
            done, _ = await asyncio.wait({goal, stop, *ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (goal, stop, *ends):
                task.cancel()
            await asyncio.wait({goal, stop, *ends})
        if stop in done:
            return False
        for task in ends.keys() & done:
            raise CommandFailed(ends[task].ending())
        goal.result()
        return True

    def _welcome(self, ports: Ports) -> Panel:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        table.add_row("Page", Text(ports.page_url, f"link {ports.page_url}"))
        table.add_row("API", f"{ports.api_url}/docs")
        table.add_row("Conditions", f"{ports.conditions_url}/api/cdb_rest/")
        table.add_row("Terminal", f"{_command()} status --daemon {ports.api_url}")
        table.add_row("Data", f"{self._state}")
        table.add_row("SQL", f"{_command()} psql {self._state / 'demo.toml'}")
        table.add_row("Logs", f"{self._state / 'logs'}")
        table.add_row(
            "", f"{INSTRUMENTS} simulated instruments at {self._rate:g} triggers/s over {INSTRUMENTS} connections"
        )
        table.add_row("Stop", "Ctrl-C")
        return Panel(table, title="triggerlog is logging", box=box.ROUNDED, border_style="green", expand=False)

    async def _end(self) -> None:
        """Stop the sender first and the daemon last, so that what was sent is committed before it ends."""
        order = {"sender": 0, "page": 1, "daemon": 2}
        for child in sorted(self._children, key=lambda child: order[child.name]):
            if child.running:
                self._console.print(f"Stopping the {child.name} ...", style="dim")
            if not await child.stop():
                self._console.print(f"The {child.name} did not end and was killed; see {child.log}", style="red")
            elif child.name == "sender":
                self._console.print(child.log.read_text(encoding="utf-8").strip(), style="dim", highlight=False)


def choose_ports(wanted: Mapping[str, int], console: Console) -> Ports:
    """Take the wanted ports, and a free one for each that is not named, or is in use, which is printed."""
    with contextlib.ExitStack() as stack:
        # All stay open until the last is chosen, so that none is chosen twice.
        ports = {name: _port(stack.enter_context(socket.socket()), name, wanted.get(name, 0), console) for name in USES}
    return Ports(**ports)


def _port(listening: socket.socket, name: str, wanted: int, console: Console) -> int:
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, wanted))
    except OSError:
        listening.bind((HOST, 0))
        console.print(
            f"Port {wanted} ({USES[name]}) is in use; using {listening.getsockname()[1]} in its place.", style="yellow"
        )
    chosen: int = listening.getsockname()[1]
    return chosen


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    try:
        lock = FolderLock(state / "demo.lock")
    except FolderInUse:
        raise CommandFailed(f"another demo uses {state}; stop it, or name another folder with --state") from None
    with lock:
        yield


@contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _ready(client: httpx.AsyncClient) -> None:
    reason = ""
    try:
        async with asyncio.timeout(READY_S):
            while True:
                try:
                    status = await ask_status(client)
                    if status.state is DaemonState.RUNNING:
                        return
                    reason = status.store.problem or f"it is {status.state}"
                except DaemonGone as gone:
                    reason = str(gone)
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise CommandFailed(f"the daemon is not ready after {READY_S:.0f} s: {reason}") from None


async def _answers(client: httpx.AsyncClient) -> None:
    try:
        async with asyncio.timeout(READY_S):
            while True:
                with contextlib.suppress(httpx.TransportError):  # it does not listen yet
                    if (await client.get("/")).is_success:
                        return
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise CommandFailed(f"the page does not answer at {client.base_url} after {READY_S:.0f} s") from None


def _command() -> str:
    """How to call this program from the current folder."""
    script = Path(sys.argv[0])
    try:
        return str(script.absolute().relative_to(Path.cwd())) if script.name == "triggerlog" else "triggerlog"
    except ValueError:
        return str(script)
