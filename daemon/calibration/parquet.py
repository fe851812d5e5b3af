"""Tables from elsewhere, in Parquet or JSON lines: decoded in a process of their own.

A damaged file can crash the library, and a few bytes can stand for gigabytes: that process has little memory, little
time of the processor and a deadline, and whatever becomes of it is one error of this file.
"""

import json
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.json as pajson
import pyarrow.parquet as pq

from daemon.core.outcome import fix_of, reason_of
from daemon.core.process.children import end_with, go_first
from schemas.checking.problems import printable, suggestion

MIB = 2**20
BASE_MIB, BASE_CPU_S = 128, 4
"""Limits of a process for a table of no size: memory beyond what its libraries take, and time of a core."""
TIMES, MIB_A_SECOND = 4, 16
"""And more by the size that a table may have: memory of so many times it, and a second for so many MiB of it."""
DEADLINE_TIMES = 2
"""By the clock it may take so many times its time of a core: others may want that, too."""
REFUSED = 3
"""Exit code of a process whose output says why the table is refused."""

log = logging.getLogger(__name__)


class TableRefused(Exception):
    """A table is not read: the field, what is wrong, and the fix."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}; {fix}")
        self.field, self.problem, self.fix = field, problem, fix


class TableNotDecoded(TableRefused):
    """The file may be well: it was this machine that could not decode it now."""


def read_columns(
    content: bytes, names: Sequence[str], *, most_rows: int, most_bytes: int, others_are_refused: bool = False
) -> pa.Table:
    """Read columns of a Parquet file; those of the names that the file does not have are not in the result.

    Args:
        content: the file.
        names: of the columns; no other one is decoded.
        most_rows: rows that it may have.
        most_bytes: bytes that its columns may have when decoded.
        others_are_refused: whether the table may have no other columns.

    Raises:
        TableRefused: it is larger than that, a column holds lists, structures or other things than values, or it is no
            Parquet that can be read.
    """
    wanted = {"names": list(names), "most_rows": most_rows, "others_are_refused": others_are_refused}
    return _decoded_elsewhere(content, most_bytes, wanted)


def read_lines(content: bytes, schema: pa.Schema, *, most_bytes: int) -> pa.Table:
    """Read JSON lines with fields of a schema and no others; each may be null, or left out.

    Raises:
        TableRefused: it is larger than that, or no JSON lines that can be read.
    """
    return _decoded_elsewhere(content, most_bytes, {"fields": {field.name: str(field.type) for field in schema}})


def _decoded_elsewhere(content: bytes, most_bytes: int, wanted: dict[str, Any]) -> pa.Table:
    cpu_s = BASE_CPU_S + most_bytes // (MIB_A_SECOND * MIB)
    order = {"parent": os.getpid(), "cpu_s": cpu_s, "most_bytes": most_bytes, "wanted": wanted}
    command = [sys.executable, "-m", "daemon.calibration.parquet", json.dumps(order)]
    deadline_s = DEADLINE_TIMES * cpu_s
    # No memory pool that keeps addresses for later, as they count: mimalloc, Arrow's own choice, maps a GiB at once.
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    try:
        done = subprocess.run(  # noqa: S603 - our own program and arguments
            command, input=content, capture_output=True, timeout=deadline_s, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        problem = f"it is not decoded within {deadline_s} s"
        raise TableNotDecoded("(file)", problem, "see what keeps this machine busy, or give a smaller one") from None
    except OSError as error:
        problem = f"no process can be started to decode it ({reason_of(error)})"
        raise TableNotDecoded("(file)", problem, fix_of(error, "see what the machine has too little of")) from None
    if done.returncode == REFUSED:
        raise TableRefused(*json.loads(done.stdout))
    if done.returncode:
        raise _ended(done, cpu_s)
    with pa.ipc.open_stream(done.stdout) as stream:
        table = stream.read_all()
    table.validate(full=True)
    return table


def _ended(done: "subprocess.CompletedProcess[bytes]", cpu_s: int) -> TableRefused:
    """Return the reason why a process neither decoded nor refused a table."""
    said = printable(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    if done.returncode > 0:
        log.error("a table cannot be decoded: a defect of triggerlog\n%s", done.stderr.decode(errors="replace"))
        return TableRefused("(file)", f"decoding it failed ({said})", "see the log, and report it")
    name = signal.Signals(-done.returncode).name
    if name == "SIGXCPU":
        return TableRefused(
            "(file)", f"it takes more than {cpu_s} s to decode", "give a smaller one, or write it again"
        )
    if name in ("SIGKILL", "SIGTERM"):
        fix = "see whether the machine has too little memory (`dmesg`)"
        return TableNotDecoded("(file)", f"decoding it was ended by {name}", fix)
    problem = f"it is damaged: decoding it was ended by {name}{f' ({said})' if said else ''}"
    return TableRefused("(file)", problem, "write it again")


def _decode() -> None:
    """Decode what comes on standard input, and write it as a stream of Arrow; in a process of its own."""
    order = json.loads(sys.argv[1])
    end_with(order["parent"])
    go_first()
    most_bytes = order["most_bytes"]
    memory = BASE_MIB * MIB + TIMES * most_bytes
    in_use = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, order["cpu_s"])
    _limit(resource.RLIMIT_AS, in_use + memory)
    try:
        table = _table(sys.stdin.buffer.read(), most_bytes=most_bytes, **order["wanted"])
        with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
            stream.write_table(table)
    except MemoryError:
        wrong = TableRefused(
            "(file)", f"it takes more than {memory // MIB} MiB to decode", f"give at most {most_bytes:,} bytes"
        )
    except TableRefused as error:
        wrong = error
    else:
        return
    sys.stdout.write(json.dumps([wrong.field, wrong.problem, wrong.fix]))
    sys.exit(REFUSED)


def _limit(which: int, most: int) -> None:
    """Limit what the process may use; at a limit of the processor's time SIGXCPU comes before SIGKILL."""
    _, hard = resource.getrlimit(which)
    soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (soft, hard))


def _table(content: bytes, *, most_bytes: int, fields: dict[str, str] | None = None, **wanted: Any) -> pa.Table:
    kind, fix = "Parquet", "write it again"
    if fields is not None:
        kind, fix = "JSON lines", "write it as docs/conditions-command.md shows"
    try:
        table = _columns(content, **wanted) if fields is None else _lines(content, fields)
        table.validate(full=True)
    except MemoryError:  # an ArrowException may be one
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = printable(f"it is no {kind} that can be read ({str(error).splitlines()[0]})")
        raise TableRefused("(file)", problem, fix) from None
    if table.nbytes > most_bytes:
        raise TableRefused("(file)", f"it has {table.nbytes:,} bytes when decoded", f"give at most {most_bytes:,}")
    return table


def _columns(content: bytes, *, names: list[str], most_rows: int, others_are_refused: bool) -> pa.Table:
    file = pq.ParquetFile(pa.BufferReader(content), pre_buffer=False)
    # The whole and its parts may differ in a damaged file.
    about = file.metadata
    rows = max(about.num_rows, sum(about.row_group(number).num_rows for number in range(about.num_row_groups)))
    if rows > most_rows:
        raise TableRefused("(file)", f"it has {rows:,} rows", f"give at most {most_rows:,}")
    for name in file.schema_arrow.names if others_are_refused else ():
        if name not in names:
            raise TableRefused(name, "unknown column", suggestion(name, names))
    wanted = [field for field in file.schema_arrow if field.name in names]
    for field in wanted:
        if not _is_of_values(field.type):
            raise TableRefused(field.name, f"it holds {field.type}", "give a single value in each row")
    table = file.read(columns=[field.name for field in wanted], use_threads=False)
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table[place].cast(field.type.value_type))
    return table


def _lines(content: bytes, fields: dict[str, str]) -> pa.Table:
    schema = pa.schema([pa.field(name, pa.type_for_alias(kind)) for name, kind in fields.items()])
    options = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    reading = pajson.ReadOptions(use_threads=False)
    return pajson.read_json(pa.BufferReader(content), read_options=reading, parse_options=options)


def _is_of_values(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(is_one(kind) for is_one in (pa.types.is_primitive, pa.types.is_string, pa.types.is_large_string))


if __name__ == "__main__":
    _decode()
