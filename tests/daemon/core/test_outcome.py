"""daemon.core.outcome: what the system refused, in words an operator can act on."""

import errno
import os
import socket

import pytest

from daemon.core.outcome import cannot_listen, file_words


def refused(code: int, path: str | None = "/srv/beam") -> OSError:
    return OSError(code, os.strerror(code), path)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (refused(errno.EACCES), "cannot be used (permission denied); run this as a user who may, such as the daemon's"),
        (refused(errno.ENOSPC), "cannot be used (no space left on device); free space on its disk"),
        (refused(errno.ENAMETOOLONG), "cannot be used (file name too long); give it a shorter path"),
        (
            refused(errno.EIO),
            "cannot be used (input/output error); look for errors of its disk (`dmesg`), and replace the disk",
        ),
        (
            refused(errno.ENXIO),
            "cannot be used (no such device or address); see that it is there, and what it should be",
        ),
    ],
)
def test_a_file_is_told_with_the_fix(error: OSError, words: str) -> None:
    assert file_words(error) == f"/srv/beam {words}"


def test_without_a_file_the_reason_is_told() -> None:
    assert file_words(refused(errno.ECONNRESET, None)) == "connection reset by peer"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            refused(errno.EADDRINUSE),
            "api.port: cannot listen on node:80 (address already in use); stop what uses it, or",
        ),
        (refused(errno.EACCES), "api.port: cannot listen on node:80 (permission denied); give a port above 1023"),
        (refused(errno.EADDRNOTAVAIL), "api.host: cannot listen on node:80 (cannot assign requested address); give an"),
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "api.host: cannot listen on node:80 (name or service not known); give an address of this machine",
        ),
    ],
)
def test_a_listener_is_told_by_the_field_that_is_wrong(error: OSError, words: str) -> None:
    assert str(cannot_listen("api", "node", 80, error)).startswith(words)
