"""Measures what pages of the daemon cost it, and browsers that follow them live.

100 triggers a second of 120 instruments come in all the time. Audiences take turns, round by round: none, a page
without a browser, one browser, three, and three at two pages. A browser is a context of its own in one Chromium, shows
the Live tab, and gets a frame four times a second.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil

from backends.throwaway.base import free_port
from benchmarks.load.sending import start_sending
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.rounds import Contender, Round, begin, expect, interleaved, print_line
from benchmarks.servers.base import Server
from benchmarks.servers.daemon_process import DaemonProcess, cpu_s, running_daemon, until
from schemas.batch import Layout

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

RATE = 100
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
VIEWPORT: "ViewportSize" = {"width": 1600, "height": 1000}
START_S = 60.0
LEAD_IN_S = 2.0
"""What a page and a browser do at the beginning is not counted."""


@dataclass(frozen=True)
class Audience:
    """Who looks on: so many processes of the page, and so many browsers, by turns at each."""

    pages: int
    browsers: int

    @property
    def name(self) -> str:
        """By which its rounds are known."""
        return f"{self.pages}-{self.browsers}"

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"{self.browsers} browsers at {self.pages} pages"


AUDIENCES = (Audience(0, 0), Audience(1, 0), Audience(1, 1), Audience(1, 3), Audience(2, 3))


def missing() -> str | None:
    """What this measure lacks here, and how to install it; None where it lacks nothing."""
    if not CHROMIUM.exists():
        return f"{CHROMIUM} is missing: apt-get install chromium"
    try:
        import playwright.sync_api  # noqa: F401, PLC0415 - the other measures do without
    except ImportError:
        return "Playwright is missing: it comes with the development group"
    return None


def measure(server: Server, plan: Plan) -> dict[str, list[Round]]:
    """All audiences, round by round; a round's time is CPU seconds of the daemon a second."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - the other measures do without

    expect("page", plan.page_rounds * len(AUDIENCES))
    with ExitStack() as open_:
        daemon = open_.enter_context(running_daemon(server, Layout.ROWS))
        open_.enter_context(_sending(daemon.port))
        playwright = open_.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        open_.callback(browser.close)
        until(lambda: daemon.group().triggers.committed >= RATE, "the first second is committed", START_S)
        contenders: dict[str, Contender] = {
            audience.name: partial(_round, daemon, browser, audience, plan.page_s) for audience in AUDIENCES
        }
        titles = {audience.name: audience.title for audience in AUDIENCES}
        found = interleaved(
            contenders,
            rounds=plan.page_rounds,
            begin=lambda name, number: begin("page", f"round {number + 1} of {plan.page_rounds}, {titles[name]}"),
            end=lambda name, _, done: _print_round(titles[name], done),
        )
    server.drop(daemon.schema)
    return found


def _print_round(title: str, done: Round) -> None:
    facts = done.facts
    print_line(
        f"  {title}: daemon {facts['daemon percent']:.1f} %, pages {facts['page percent']:.1f} % of a core,"
        f" {facts['bytes a second'] / 1e3:.1f} kB/s and {facts['frames a second']:.1f} frames/s a browser"
    )


@contextmanager
def _sending(port: int) -> Iterator[None]:
    """Send until left; the daemon commits what was sent."""
    sender = start_sending(port, seconds=86_400, rate=RATE)
    try:
        yield
    finally:
        sender.kill()
        sender.communicate()


def _round(daemon: DaemonProcess, browser: "Browser", audience: Audience, seconds: float) -> Round:
    with ExitStack() as open_:
        pages = [open_.enter_context(_page(daemon.api)) for _ in range(audience.pages)]
        watched = [_watched(open_, browser, pages[k % len(pages)].url) for k in range(audience.browsers)]
        wait(watched, LEAD_IN_S)
        processes = [daemon.process, *(page.process for page in pages)]
        before, begun, sizes = [cpu_s(process) for process in processes], time.monotonic(), list(map(_came, watched))
        wait(watched, seconds)
        taken = time.monotonic() - begun
        used = [cpu_s(process) - was for process, was in zip(processes, before, strict=True)]
        frames, size = (
            sum(_came(w)[k] - was[k] for w, was in zip(watched, sizes, strict=True)) / taken / max(len(watched), 1)
            for k in range(2)
        )
    return Round(
        seconds=used[0] / taken,
        facts={
            "daemon percent": 100 * used[0] / taken,
            "page percent": 100 * sum(used[1:]) / taken,
            "frames a second": frames,
            "bytes a second": size,
        },
    )


def wait(watched: list["Watched"], seconds: float) -> None:
    """Let time pass; Playwright delivers the events of a browser only while it is called."""
    if watched:
        watched[0].page.wait_for_timeout(1e3 * seconds)
    else:
        time.sleep(seconds)


@dataclass(frozen=True)
class _PageProcess:
    process: psutil.Process
    url: str


@contextmanager
def _page(api: str) -> Iterator[_PageProcess]:
    """A process of the page."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "dashboard", "--daemon", api, "--port", str(port)]
    with psutil.Popen(command, stdout=subprocess.DEVNULL, env=os.environ) as process:
        try:
            until(lambda: process.poll() is not None or _answers(url), f"the page at {url} answers", START_S)
            if process.poll() is not None:
                raise RuntimeError(f"the page does not start; it ended with {process.returncode}")
            yield _PageProcess(process, url)
        finally:
            process.kill()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.TransportError:  # it does not listen yet
        return False


class Watched:
    """A page of a browser, and what came to it since then.

    frames: of its stream. streamed: bytes of these. loaded: bytes of all else, as they travelled; requests: these.
    """

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.frames = self.streamed = self.loaded = self.requests = 0
        session = page.context.new_cdp_session(page)
        session.on("Network.webSocketFrameReceived", self._frame)
        session.on("Network.loadingFinished", self._load)
        session.send("Network.enable")

    def _frame(self, event: dict[str, Any]) -> None:
        self.frames += 1
        self.streamed += len(event["response"]["payloadData"].encode())

    def _load(self, event: dict[str, Any]) -> None:
        self.loaded += int(event["encodedDataLength"])
        self.requests += 1


def _watched(open_: ExitStack, browser: "Browser", url: str) -> Watched:
    """A browser that has LIVE data."""
    context = browser.new_context(viewport=VIEWPORT)
    open_.callback(context.close)
    watched = Watched(context.new_page())
    watched.page.goto(url)
    watched.page.wait_for_selector('#page[data-link="live"]', timeout=1e3 * START_S)
    return watched


def _came(watched: Watched) -> tuple[int, int]:
    """Frames and bytes so far."""
    return watched.frames, watched.streamed + watched.loaded
