"""`python -m benchmarks.studies.page_cost 72b9d9f`: what the page costs, against that of an earlier commit.

Both by turns, each with a daemon of its own that writes simulated instruments to a PostgreSQL of both, and each opened
in Chromium: how long it takes from the address to LIVE in a browser that has never been there, how many bytes that
loads in how many requests, the bytes a second of its stream, and the processor time of daemon and page with 0, 1 and 5
browsers.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from playwright.sync_api import Browser, expect, sync_playwright

from backends.throwaway.base import free_port
from benchmarks.measures.pages import ARGUMENTS, CHROMIUM, LEAD_IN_S, VIEWPORT, Watched, wait
from benchmarks.servers import postgresql
from benchmarks.servers.base import Server
from benchmarks.servers.daemon_process import cpu_s, wait_until_running
from benchmarks.studies.earlier import ROOT, environment, tree_of

BROWSERS = (0, 1, 5)
PATIENCE_MS = 120_000
CONFIG = """
logger = "bench"
state_dir = "{state}"
[[groups]]
name = "bpm"
count = {instruments}
channels = [{{ name = "top_in" }}, {{ name = "bot_in" }}, {{ name = "bot_out" }}, {{ name = "top_out" }}]
[[sources]]
kind = "simulated"
group = "bpm"
rate = {rate}
[database]
dsn = "{dsn}"
schema = "{schema}"
[api]
port = {port}
"""


@dataclass(kw_only=True)
class Contender:
    """One of those compared. figures: by name, one a round."""

    name: str
    daemon: psutil.Process
    page: psutil.Process
    url: str
    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def measure(self, browser: Browser, seconds: float) -> None:
        """Open it, watch it for so long, and note what that took."""
        for amount in BROWSERS:
            with contextlib.ExitStack() as on:
                pages = [on.enter_context(self._opened(browser, is_noted=amount == 1)) for _ in range(amount)]
                wait(pages, LEAD_IN_S)
                before = [cpu_s(self.daemon), cpu_s(self.page), *(page.streamed for page in pages)]
                wait(pages, seconds)
                after = [cpu_s(self.daemon), cpu_s(self.page), *(page.streamed for page in pages)]
            daemon, page, *received = [(end - begin) / seconds for begin, end in zip(before, after, strict=True)]
            self.figures[f"daemon, CPU %, {amount} browsers"].append(100 * daemon)
            self.figures[f"page, CPU %, {amount} browsers"].append(100 * page)
            if amount == 1:
                self.figures["stream, bytes/s"].append(received[0])

    @contextlib.contextmanager
    def _opened(self, browser: Browser, *, is_noted: bool) -> Iterator[Watched]:
        context = browser.new_context(viewport=VIEWPORT)  # nothing is kept of the one before
        try:
            page = context.new_page()
            watched = Watched(page)
            began = time.monotonic()
            page.goto(self.url, timeout=PATIENCE_MS, wait_until="commit")
            expect(page.locator("#badge-text")).to_have_text("LIVE", timeout=PATIENCE_MS)
            if is_noted:
                self.figures["to LIVE, s"].append(time.monotonic() - began)
                page.wait_for_load_state("networkidle", timeout=PATIENCE_MS)
                self.figures["loaded, MB"].append(watched.loaded / 1e6)
                self.figures["requests"].append(watched.requests)
            yield watched
        finally:
            context.close()


@contextlib.contextmanager
def _contender(name: str, tree: Path, server: Server, asked: argparse.Namespace) -> Iterator[Contender]:
    schema = server.new_name()
    folder = server.folder / schema
    folder.mkdir()
    port, page_port = free_port(), free_port()
    config, log = folder / "bench.toml", folder / "daemon.log"
    config.write_text(
        CONFIG.format(
            state=folder / "state",
            instruments=asked.instruments,
            rate=asked.rate,
            dsn=server.dsn,
            schema=schema,
            port=port,
        )
    )
    daemon_url, page_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{page_port}"
    with contextlib.ExitStack() as on, log.open("wb") as output:
        started = []
        for command in (
            ("daemon", "run", str(config)),
            ("dashboard", "--daemon", daemon_url, "--port", str(page_port)),
        ):
            process = on.enter_context(
                subprocess.Popen([sys.executable, "-m", *command], stdout=output, stderr=output, env=environment(tree))
            )
            on.callback(process.terminate)
            started.append(process)
        wait_until_running(started[0], daemon_url, log)
        yield Contender(
            name=name, daemon=psutil.Process(started[0].pid), page=psutil.Process(started[1].pid), url=page_url
        )


def _lines(first: Contender, second: Contender) -> Iterator[str]:
    yield f"{'':<28}{first.name:>12}{second.name:>12}   ratio of the medians (least to most of the rounds)"
    for name, before in first.figures.items():
        after = second.figures[name]
        one, other = statistics.median(before), statistics.median(after)
        ratios = [b / a for a, b in zip(before, after, strict=True) if a]
        spread = f"{other / one:.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if one and ratios else ""
        yield f"{name:<28}{one:>12,.3g}{other:>12,.3g}   {spread}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What the page costs, against that of an earlier commit.")
    parser.add_argument("commit")
    parser.add_argument("--instruments", type=int, default=120)
    parser.add_argument("--rate", type=float, default=44.0, help="triggers a second")
    parser.add_argument("--seconds", type=float, default=15.0, help="for which each number of browsers looks on")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        postgresql.throwaway(Path(name)) as server,
        sync_playwright() as playwright,
        contextlib.ExitStack() as on,
    ):
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        earlier = on.enter_context(_contender(asked.commit, tree_of(asked.commit, Path(name)), server, asked))
        now = on.enter_context(_contender("now", ROOT, server, asked))
        for turn in range(asked.rounds):
            for contender in (earlier, now) if turn % 2 else (now, earlier):
                contender.measure(browser, asked.seconds)
        browser.close()
    sys.stdout.write("\n".join(_lines(earlier, now)) + "\n")


if __name__ == "__main__":
    main()
