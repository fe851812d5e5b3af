"""`triggerlog export --folder`: what is in a file is what the store answers, on real servers."""

import asyncio
import csv
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from backends import open_folders_store
from backends.base import StoreError
from daemon.core.outcome import CommandFailed
from daemon.tools.export.command import export
from schemas.batch import JournalPosition
from schemas.config import DatabaseConfig
from schemas.folders.blocks import OPEN, Insertion
from schemas.folders.folders import Column, FolderKind, NewFolder
from tests.support.processes import GROUP

SERVERS = {"postgresql": "postgresql_dsn", "mariadb": "mariadb_dsn"}
COLUMNS = (Column(name="ampere", dtype="float32"), Column(name="note", dtype="text", width=12))
CHANNELS = {0: "Q0", 1: "Q1", 7: 'Q,"7'}
SINGLE, MULTI = "/magnets/current", "/calibrations/gain"
OF_SINGLE = [
    (0, 100, 200, 1.5, "µA".encode()),
    (0, 200, 300, 2.5, b""),
    (7, 150, OPEN, -3.5, b"twelve bytes"),
]
FIRST, SECOND = (1, 100, 200, 1.0, b"first"), (1, 150, 250, 2.0, b"second")


@pytest.fixture(params=SERVERS)
def dsn(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(SERVERS[request.param]))


@dataclass(frozen=True, kw_only=True)
class Stored:
    file: Path
    folder: Path

    def export(self, *options: str, ending: str = "parquet") -> Path:
        """Export into a new file."""
        output = self.folder / f"out.{ending}"
        with redirect_stdout(io.StringIO()) as said:
            export(self.file, output=output, force=True, **given(options))
        assert said.getvalue().startswith(f"{output}: ")
        return output

    def rows(self, *options: str) -> list[tuple[Any, ...]]:
        """What a Parquet file has, without the names of channels."""
        table = pq.read_table(self.export(*options))
        assert table["name"].to_pylist() == [CHANNELS[number] for number in table["channel"].to_pylist()]
        return [tuple(row.values()) for row in table.drop_columns("name").to_pylist()]

    def refuses(self, *options: str) -> str:
        output = self.folder / "none.parquet"
        with pytest.raises((CommandFailed, StoreError)) as caught:
            export(self.file, output=output, **given(options))
        assert not output.exists()
        assert "\n" not in str(caught.value)
        return str(caught.value)


def given(options: Sequence[str]) -> dict[str, Any]:
    """Options as the command's function takes them: it waits for signals, which only this thread gets."""
    names = (each.removeprefix("--") for each in options[::2])
    return {"from_" if name == "from" else name: value for name, value in zip(names, options[1::2], strict=True)}


@pytest.fixture
def stored(dsn: str, schema: str, tmp_path: Path) -> Iterator[Stored]:
    """Two folders, of which the second has two versions; the first one is tagged."""
    store = open_folders_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=tmp_path)

    async def fill() -> None:
        await store.create()
        for path, kind, blocks in (
            (SINGLE, FolderKind.SINGLE, [OF_SINGLE]),
            (MULTI, FolderKind.MULTI, [[FIRST], [SECOND]]),
        ):
            folder = await store.add_folder(NewFolder(path=path, kind=kind, columns=COLUMNS, channels=CHANNELS))
            for number, rows in enumerate(blocks, 1):
                block = np.array(rows, folder.dtype)
                await store.insert(
                    path, Insertion(block=block, source="test", position=JournalPosition(sequence=number))
                )
                if path == MULTI and number == 1:
                    await store.add_tag(path, "first")
        await store.close()

    async def drop() -> None:
        await store.drop()
        await store.close()

    asyncio.run(fill())
    file = tmp_path / "beam.toml"
    file.write_text(f'logger = "node"\n{GROUP}[database]\ndsn = "{dsn}"\n[folders]\nschema = "{schema}"\n')
    yield Stored(file=file, folder=tmp_path)
    asyncio.run(drop())


def told(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """An interval as a file has it."""
    channel, since, until, ampere, note = row
    return channel, since, None if until == OPEN else until, ampere, note.decode()


def test_a_file_has_what_the_folder_has(stored: Stored) -> None:
    everything = list(map(told, OF_SINGLE))
    first, second, third = everything
    assert stored.rows("--folder", SINGLE) == everything
    assert stored.rows("--folder", SINGLE, "--from", "200") == [second, third]
    assert stored.rows("--folder", SINGLE, "--to", "200") == [first, third]
    assert stored.rows("--folder", SINGLE, "--last", "7d") == [third]
    assert stored.rows("--folder", SINGLE, "--at", "199") == [first, third]
    assert stored.rows("--folder", SINGLE, "--at", "1970-01-01T00:00:00.000000200Z", "--channels", "Q0") == [second]
    assert stored.rows("--folder", SINGLE, "--channels", "7,Q0,0") == everything
    assert stored.rows("--folder", MULTI) == [(1, 100, 150, 1.0, "first"), told(SECOND)]
    assert stored.rows("--folder", MULTI, "--tag", "first") == [told(FIRST)]
    about = json.loads(pq.read_schema(stored.folder / "out.parquet").metadata[b"triggerlog"])
    assert (about["logger"], about["folder"], about["kind"], about["tag"]) == ("node", MULTI, "multi", "first")
    assert about["channels"] == {str(number): name for number, name in CHANNELS.items()}
    assert (about["since"], about["until"]) == (0, OPEN)


def test_every_format_has_the_same(stored: Stored) -> None:
    text = stored.export("--folder", SINGLE, ending="csv").read_text()
    assert gzip.decompress(stored.export("--folder", SINGLE, ending="csv.gz").read_bytes()).decode() == text
    header, *rows = csv.reader(text.splitlines())
    assert header == ["channel", "name", "since", "until", "ampere", "note"]
    assert [(int(row[0]), row[1], row[3], float(row[4]), row[5]) for row in rows] == [
        (0, "Q0", "200", 1.5, "µA"),
        (0, "Q0", "300", 2.5, ""),
        (7, 'Q,"7', "", -3.5, "twelve bytes"),
    ]
    with h5py.File(stored.export("--folder", SINGLE, ending="h5")) as file:
        assert file.attrs["folder"] == SINGLE
        assert dict(zip(file["channels/number"][:], file["channels/name"].asstr()[:], strict=True)) == CHANNELS
        columns = [file[f"intervals/{name}"][:].tolist() for name in ("channel", "since", "until", "ampere", "note")]
    assert list(zip(*columns, strict=True)) == OF_SINGLE


def test_what_cannot_be_exported_is_told_in_one_line(stored: Stored) -> None:
    assert (
        stored.refuses("--folder", "/none") == "--folder: folder /none is not there; name one that is, or add it first"
    )
    assert stored.refuses("--folder", SINGLE, "--channels", "Q9").startswith("--channels: there is no 'Q9'; ")
    assert stored.refuses("--folder", MULTI, "--tag", "none").startswith("--tag: ")
    assert stored.refuses("--folder", SINGLE, "--at", "5") == f"{SINGLE} has no such interval; no file was written"
    assert stored.refuses("--folder", SINGLE, "--at", "noon").startswith("--at: 'noon' is not a time; ")
    assert stored.refuses("--folder", SINGLE, "--at", "1969-01-01").startswith("--at: 1969-01-01 is before 1970")
    assert stored.refuses("--folder", SINGLE, "--at", "5", "--last", "1d").startswith("--at: give it, or ")
    assert stored.refuses("--folder", SINGLE, "--from", "9", "--to", "5").startswith("--to: ")
    assert stored.refuses("--folder", SINGLE, "--run", "5") == "--run: it is for readings, and not for --folder"
    assert stored.refuses("--at", "5") == "--at: it is for intervals; give --folder PATH, too"
    stored.file.write_text(stored.file.read_text().replace("[folders]\nschema = ", '[folders]\nschema = "none" #'))
    assert stored.refuses("--folder", SINGLE).startswith("folders.schema: none cannot be read (")
