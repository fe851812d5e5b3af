"""A daemon with a defect: `python -m tests.support.half_step WHERE WHEN run FILE` is `triggerlog run FILE`.

From the moment on when the file WHEN is there, a function of its data path does its work, and then fails: whoever
called it is left with half a step.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from daemon.tools.cli import main

PLACES = {
    "callback": ("daemon.pipeline.assembly.assembly", "Assembly", "receive"),
    "timer": ("daemon.pipeline.assembly.assembly", "Assembly", "close_due"),
    "task": ("daemon.pipeline.committer.committer", "Committer", "_count"),
    "intake": ("daemon.pipeline.log.log", "Log", "append"),
    "acknowledgement": ("daemon.sources.tcp.connection", "Connection", "acknowledge"),
}
"""A function by where it is called: by a callback of a connection, a timer, a task, a thread."""


def fail_at(place: str, when: Path) -> None:
    """Have a function fail after its work."""
    module, name, method = PLACES[place]
    owner = getattr(importlib.import_module(module), name)
    real: Callable[..., Any] = getattr(owner, method)
    assert not inspect.iscoroutinefunction(real)

    def half(*args: Any, **kwargs: Any) -> Any:
        done = real(*args, **kwargs)
        assert not when.exists(), "half a step"
        return done

    setattr(owner, method, half)


if __name__ == "__main__":
    place, when, *sys.argv[1:] = sys.argv[1:]
    fail_at(place, Path(when))
    main()
