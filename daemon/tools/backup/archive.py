"""The file of a backup: a tar file with checksums, that `tar` and the database's own tools read, too.

backup.json             what it is, and what made it
configuration.toml      the configuration, without passwords
state/...               the state folder
database/DUMP/000001.gz a dump in parts, which one after the other are one gzip file
SHA256SUMS              the checksum of each of them; the last, so that a file without it is not whole
"""

import gzip
import hashlib
import io
import tarfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.core.outcome import CommandFailed

MANIFEST, CONFIGURATION, SUMS = "backup.json", "configuration.toml", "SHA256SUMS"
STATE, DATABASE = "state", "database"
PART_BYTES = 8 << 20
"""A part of a dump, before it is compressed."""
LONGEST_TEXT = 16 << 20
READ_BYTES = 1 << 20
VERSION = 1
GZIP = 16 + zlib.MAX_WBITS

Progress = Callable[[int], None]
"""Is called with the bytes that were read or written so far."""


class Manifest(BaseModel):
    """The first member: who made the backup, of what.

    schemas: by the section of the configuration; those that were on the server. dumps: names of dumps, and the
    schemas in each. server: the database and its tools, with versions. made: UTC.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["triggerlog backup"] = "triggerlog backup"
    version: int = VERSION
    triggerlog: str
    made: str
    logger: str
    backend: str
    server: str
    schemas: dict[str, str]
    dumps: dict[str, list[str]]


class BackupWriter:
    """Writes a backup into a file; `close` makes it whole."""

    def __init__(self, file: IO[bytes], manifest: Manifest, configuration: str) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - `close` closes it
        self._sums = list[str]()
        self.add(MANIFEST, manifest.model_dump_json(indent=1).encode())
        self.add(CONFIGURATION, configuration.encode())

    def add(self, name: str, data: bytes, *, mode: int = 0o600) -> None:
        """Write a member."""
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(data), mode, int(time.time())
        self._tar.addfile(info, io.BytesIO(data))
        self._sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")

    def add_dump(self, name: str, blocks: Iterable[bytes], progress: Progress) -> None:
        """Write a dump as it comes, a part at a time."""
        number, done = 0, 0
        gathered = bytearray()

        def write() -> None:
            nonlocal number
            number += 1
            self.add(f"{DATABASE}/{name}/{number:06}.gz", gzip.compress(gathered, 1))
            gathered.clear()

        for block in blocks:
            for start in range(0, len(block), PART_BYTES):
                gathered += block[start : start + PART_BYTES]
                while len(gathered) >= PART_BYTES:
                    rest = gathered[PART_BYTES:]
                    del gathered[PART_BYTES:]
                    write()
                    gathered += rest
            done += len(block)
            progress(done)
        write()

    def close(self) -> None:
        """Write the checksums."""
        self.add(SUMS, "".join(self._sums).encode())
        self._tar.close()


class BackupReader:
    """A backup that is whole: the file is read to its end first, and nothing of it is used before.

    Raises:
        CommandFailed: it is none, or it is damaged.
    """

    def __init__(self, path: Path, file: IO[bytes], progress: Progress) -> None:
        self._path = path
        try:
            self._tar = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115 - who opened the file closes it
            self.manifest = self._manifest()
            self._check(progress)
        except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
            raise CommandFailed(f"{path} is no whole backup ({error}); take another one") from None

    def state_files(self) -> Iterator[tuple[PurePosixPath, int, IO[bytes]]]:
        """Give the files of the state folder, with their paths in it and their modes."""
        for member in self._tar.getmembers():
            path = PurePosixPath(member.name)
            if path.parts[0] == STATE:
                yield path.relative_to(STATE), member.mode & 0o777, self._content(member)

    def dump(self, name: str, progress: Progress) -> Iterator[bytes]:
        """Give a dump, a part at a time."""
        for member in self._tar.getmembers():
            if member.name.startswith(f"{DATABASE}/{name}/"):
                unpacking = zlib.decompressobj(GZIP)
                yield unpacking.decompress(self._content(member).read(), PART_BYTES)
                if not unpacking.eof:
                    raise CommandFailed(f"{self._path}: {member.name} is not as triggerlog writes it; take another one")
                progress(member.offset_data + member.size)

    def _manifest(self) -> Manifest:
        first = self._tar.next()
        if first is None or first.name != MANIFEST or not first.isreg() or first.size > LONGEST_TEXT:
            raise CommandFailed(f"{self._path} is no backup of triggerlog; give a file that `triggerlog backup` wrote")
        try:
            manifest = Manifest.model_validate_json(self._content(first).read())
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise CommandFailed(
                f"{self._path}: {MANIFEST} is not understood ({where}); use the version of triggerlog that wrote it"
            ) from None
        if manifest.version != VERSION:
            raise CommandFailed(
                f"{self._path} was written by triggerlog {manifest.triggerlog}, in format {manifest.version}; this one"
                f" reads format {VERSION}: use that version"
            )
        return manifest

    def _check(self, progress: Progress) -> None:
        sums, noted = dict[str, str](), dict[str, str]()
        for member in self._tar:
            if noted or not _is_expected(member):
                raise CommandFailed(f"{self._path}: {member.name!r} does not belong into a backup; take another one")
            content = self._content(member)
            if member.name == SUMS:
                lines = content.read(LONGEST_TEXT).decode().splitlines()
                noted = {name: found for found, _, name in (line.partition("  ") for line in lines)}
                continue
            found = hashlib.sha256()
            while block := content.read(READ_BYTES):
                found.update(block)
            if member.name in sums:
                raise CommandFailed(f"{self._path}: {member.name} is there twice; take another backup")
            sums[member.name] = found.hexdigest()
            progress(member.offset_data + member.size)
        if not noted:
            raise CommandFailed(f"{self._path} is not whole: its end, {SUMS}, is missing; take another backup")
        wrong = sorted(name for name in sums.keys() | noted.keys() if sums.get(name) != noted.get(name))
        if wrong:
            raise CommandFailed(f"{self._path} is damaged: {wrong[0]} is not what was written; take another backup")

    def _content(self, member: tarfile.TarInfo) -> IO[bytes]:
        found = self._tar.extractfile(member)
        assert found is not None
        return found


def _is_expected(member: tarfile.TarInfo) -> bool:
    path = PurePosixPath(member.name)
    if not member.isreg() or not path.parts or path.is_absolute() or ".." in path.parts:
        return False
    if path.parts[0] == DATABASE:
        return len(path.parts) == 3 and member.size <= 2 * PART_BYTES
    return (path.parts[0] == STATE and len(path.parts) > 1) or member.name in (MANIFEST, CONFIGURATION, SUMS)
