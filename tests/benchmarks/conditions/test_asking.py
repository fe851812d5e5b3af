"""Clients of the benchmark: what they take for an answer."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from benchmarks.conditions.asking import ClientFailed, ask


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that gives every connection the same answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def test_a_whole_answer_is_its_body() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[[]]") as port:
        assert ask(port, "/") == b"[[]]"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[[",
        b"",
    ],
)
def test_another_answer_ends_the_client(answer: bytes) -> None:
    with answering(answer) as port, pytest.raises(ClientFailed):
        ask(port, "/")
