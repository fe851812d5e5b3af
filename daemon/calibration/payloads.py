"""Files of payloads: below a folder or an address, read whole, and used only with the checksum that is expected."""

import asyncio
import hashlib
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit
from urllib.request import url2pathname

from daemon.core.outcome import CommandFailed, fix_of, reason_of
from schemas.checking.problems import printable

MOST_BYTES = 32 * 2**20
"""A payload of more bytes, as a file or when decoded, is refused: calibrations of 30,000 instruments are a third of
that."""

PATIENCE_S = 20.0

ALGORITHMS = {64: "sha256", 32: "md5"}
"""The algorithm of a checksum by how many hexadecimal digits it has."""


class NotCalibrated(CommandFailed):
    """Readings are not calibrated: the field, what is wrong, and the fix, in one line."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(printable(f"{field}: {problem}; {fix}"))
        self.field, self.problem, self.fix = field, printable(problem), fix


class PayloadUnusable(NotCalibrated):
    """A payload is not used."""


class PayloadFiles(Protocol):
    """Where a site keeps its payloads."""

    async def read(self, url: str) -> bytes:
        """Read a file by its URL relative to the place.

        Raises:
            PayloadUnusable: it is outside the place, cannot be read, or is too large.
        """


def payload_files(place: str, folder: Path) -> PayloadFiles:
    """Open the place of payloads.

    Args:
        place: `payloads` of the configuration, which is a folder, or an address of `file:`, `http:` or `https:`.
        folder: what the name of a folder is relative to.
    """
    parts = urlsplit(place)
    if parts.scheme in ("http", "https"):
        return _Address(place)
    return _Folder(Path(url2pathname(parts.path)) if parts.scheme == "file" else folder / place)


def verified(content: bytes, checksum: str, url: str) -> str:
    """See that a payload is what its interval says, and return its checksum; its sha256 where the interval has none.

    Raises:
        PayloadUnusable: it is another one, or the checksum is none of sha256 or md5.
    """
    expected = checksum.strip().lower()
    algorithm = ALGORITHMS.get(len(expected) or 64)
    if algorithm is None:
        raise PayloadUnusable(
            "checksum",
            f"{checksum!r} of payload {url!r} is neither sha256 nor md5 in hexadecimal",
            "attach the payload again with its sha256",
        )
    found = hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
    if expected and found != expected:
        raise PayloadUnusable(
            "checksum",
            f"payload {url!r} has {algorithm} {found}, and its interval says {expected}",
            "put back the file that was attached, or attach this one with its checksum",
        )
    return found


class _Folder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, url: str) -> bytes:
        return await asyncio.to_thread(self._read, url)

    def _read(self, url: str) -> bytes:
        try:
            folder = self._folder.resolve()
            path = (folder / url).resolve()
            if not path.is_relative_to(folder):
                raise _outside(url, str(self._folder))
            if not path.is_file():
                raise PayloadUnusable(
                    "url", f"there is no file {url!r} in {folder}", "put it there, or correct conditions.payloads"
                )
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            fix = fix_of(error, "see that conditions.payloads names a folder that can be read")
            raise PayloadUnusable("url", f"payload {url!r} cannot be read ({reason_of(error)})", fix) from None
        except ValueError:  # of a NUL
            raise PayloadUnusable("url", f"{url!r} is no name of a file", "attach the payload by its name") from None
        return _of_size(content, url)


class _Address:
    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")

    async def read(self, url: str) -> bytes:
        import httpx  # noqa: PLC0415 - a command that reads a folder starts without it

        if _leads_outside(url):
            raise _outside(url, self._address)
        whole, content = f"{self._address}/{quote(url, safe='/%')}", bytearray()
        try:
            async with (
                httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as client,
                client.stream("GET", whole, headers={"Accept-Encoding": "identity"}) as answer,
            ):
                # A redirect is no success, too: it may lead anywhere.
                if not answer.is_success:
                    raise PayloadUnusable(
                        "url", f"{whole} answers {answer.status_code}", "put it there, or correct conditions.payloads"
                    )
                # What is compressed may become a thousand times as much, and more than once.
                if (encoding := answer.headers.get("Content-Encoding", "identity")) != "identity":
                    fix = "let the server send it as it is"
                    raise PayloadUnusable("url", f"{whole} is sent with Content-Encoding {encoding}", fix)
                async for part in answer.aiter_raw():
                    content += part
                    if len(content) > MOST_BYTES:
                        break
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            reason = str(error) or type(error).__name__
            raise PayloadUnusable(
                "url", f"{whole} cannot be read ({reason})", "see that conditions.payloads names a server that answers"
            ) from None
        return _of_size(bytes(content), url)


def _leads_outside(url: str) -> bool:
    path = unquote(url).replace("\\", "/")
    return ".." in path.split("/") or path.startswith("/") or bool(urlsplit(url).scheme) or "?" in url or "#" in url


def _outside(url: str, place: str) -> PayloadUnusable:
    return PayloadUnusable(
        "url", f"{url!r} leads outside {place}", "attach the payload with a path below conditions.payloads"
    )


def _of_size(content: bytes, url: str) -> bytes:
    if len(content) > MOST_BYTES:
        raise PayloadUnusable(
            "url", f"payload {url!r} has more than {MOST_BYTES // 2**20} MiB", "attach the calibrations themselves"
        )
    return content
