"""The servers that are measured, by backend: throw-away ones, or those that the user's DSNs name."""

import importlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from backends.throwaway import ServerNotInstalled
from benchmarks.servers.base import Server, left_clean
from schemas.checking.dsn import Backend, backend_of

Servers = Mapping[Backend, Server]


@contextmanager
def running(
    parent: Path, backends: Sequence[Backend], dsns: Sequence[str], print_line: Callable[[str], None]
) -> Iterator[Servers]:
    """Have the servers run that are to be measured; nothing is left of them, or in them, afterwards.

    Args:
        parent: throw-away servers write in a new folder under it.
        backends: which. One without a DSN gets a throw-away server, and is left out, with a line that says so, where
            that is not to be had.
        dsns: the user's own servers, checked, at most one a backend.
        print_line: takes that line.

    """
    named = {backend_of(dsn): dsn for dsn in dsns}
    folder = parent.absolute() / f"servers-{os.getpid()}"
    folder.mkdir(parents=True)
    found: dict[Backend, Server] = {}
    with ExitStack() as stack:
        # What must not fail because a server wrote a file meanwhile, and comes after all of them have ended.
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for backend in backends:
            own = folder / backend.value
            own.mkdir()
            try:
                found[backend] = stack.enter_context(left_clean(_start(stack, backend, named.get(backend), own)))
            except ServerNotInstalled as error:
                print_line(f"{backend} is left out: {error}")
        yield found


def _start(stack: ExitStack, backend: Backend, dsn: str | None, folder: Path) -> Server:
    # Each module brings its driver, which not every site has.
    module = importlib.import_module(f"benchmarks.servers.{backend.value}")
    if dsn is not None:
        server: Server = module.named(dsn, folder)
        return server
    throwaway: Callable[[Path], AbstractContextManager[Server]] = module.throwaway
    return stack.enter_context(throwaway(folder))
