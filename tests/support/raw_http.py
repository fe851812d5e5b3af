"""Requests as bytes, for what no client would send, and headers that no client should."""

import asyncio

MALFORMED_HOSTS = (
    b"",
    b"[",
    b"]",
    b"[]",
    b"[::1",
    b"::1",
    b"[::1]x",
    b"[::1]:x",
    b"[1.2.3.4]",
    b"[::g]",
    b"[v1.x",
    b"a]b",
    b"a[b",
    b"localhost:",
    b"localhost:port",
    b"localhost:-1",
    b"localhost:65536",
    b"localhost:" + b"9" * 5000,
    b"localhost:1:2",
    b"localhost:\xb2",
    b"local host",
    b"localhost/",
    b"localhost?",
    b"localhost#",
    b"user@localhost",
    b"localhost\\x",
    b"localhost, other",
    b"\xff\xfe",
    b"\xe2\x84\x80",
    b"a\xe2\x84\xabb",
    b":8120",
    b"%zz",
)
"""Values of a Host header."""

MALFORMED_ORIGINS = (
    b"",
    b"[",
    b"localhost",
    b"//localhost",
    b"http:",
    b"http://",
    b"http:localhost",
    b"://localhost",
    b"1http://localhost",
    b"http://localhost/",
    b"http://localhost/path",
    b"http://localhost?x",
    b"http://localhost#x",
    b"http://user@localhost",
    b"http://localhost http://localhost",
    b"http://localhost, http://localhost",
    b"nullnull",
    *(b"http://" + host for host in MALFORMED_HOSTS),
)
"""Values of an Origin header."""

WEBSOCKET = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)


async def status_of(
    port: int, path: str, *headers: tuple[bytes, bytes], method: str = "GET", websocket: bool = False
) -> int:
    """The status of the answer to a request with these headers, and no others but those of a WebSocket."""
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{method} {path} HTTP/1.1\r\n".encode() + lines + (WEBSOCKET if websocket else b"") + b"\r\n")
        async with asyncio.timeout(60):
            version, status, *_ = (await reader.readline()).split()
        assert version == b"HTTP/1.1"
        return int(status)
    finally:
        writer.close()
