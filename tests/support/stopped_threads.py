"""Stops threads of a process, as a disk that hangs would: `python stopped_threads.py PID` stops all but the first.

The process itself goes on, its event loop with it. The threads stay stopped until this script or the process ends.
"""

import ctypes
import os
import sys
from pathlib import Path

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207  # linux/ptrace.h
WALL = 0x40000000  # linux/wait.h: wait for threads, too

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_LIBC.ptrace.restype = ctypes.c_long


def ptrace(request: int, thread: int) -> None:
    if _LIBC.ptrace(request, thread, None, None) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"thread {thread}: {os.strerror(number)}")


def stop(process: int) -> None:
    for thread in (int(path.name) for path in Path(f"/proc/{process}/task").iterdir()):
        if thread != process:
            ptrace(PTRACE_SEIZE, thread)
            ptrace(PTRACE_INTERRUPT, thread)


def wait() -> None:
    """Until the threads have died; a dead one that its tracer does not wait for would keep its process from ending."""
    while True:
        try:
            os.waitpid(-1, WALL)
        except ChildProcessError:
            return


if __name__ == "__main__":
    assert Path(f"/proc/{sys.argv[1]}").exists(), "no such process"
    try:
        stop(int(sys.argv[1]))
    except PermissionError as error:  # as in a container without CAP_SYS_PTRACE
        sys.exit(f"not permitted: {error}")
    sys.stdout.write("stopped\n")
    sys.stdout.flush()
    wait()
