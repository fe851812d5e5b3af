"""Parquet tables from elsewhere: columns of single values, refused by what they become before they are decoded.

A file says of itself how many rows it has and how large they are, and may say anything: a dictionary, a run length or
a compressed page of a few bytes can stand for gigabytes. So the header of each page is read first.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.checking.problems import printable, suggestion

MIB = 2**20
FOOTER_BYTES = MIB
"""Of the description of a file: one of ten columns and a hundred row groups is a tenth of that."""
THRIFT_ITEMS = 10_000
VALUE_BYTES = 8


class TableRefused(Exception):
    """A table is not read: the field, what is wrong, and the fix."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}; {fix}")
        self.field, self.problem, self.fix = field, problem, fix


def read_columns(
    content: bytes, names: Sequence[str], *, most_rows: int, most_bytes: int, others_are_refused: bool = False
) -> pa.Table:
    """Read columns of a table; those of the names that the file does not have are not in the result.

    Args:
        content: the file.
        names: of the columns; no other one is decoded.
        most_rows: rows that it may have.
        most_bytes: bytes that its columns, and each page of them, may have when decoded.
        others_are_refused: whether the table may have no other columns.

    Raises:
        TableRefused: it is larger than that, a column holds lists, structures or other things than values, or it is no
            Parquet that can be read.
    """
    try:
        table = _read(content, names, most_rows, most_bytes, others_are_refused=others_are_refused)
        table.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = printable(f"it is no Parquet that can be read ({str(error).splitlines()[0]})")
        raise TableRefused("(file)", problem, "write it again") from None
    return table


def _read(
    content: bytes, names: Sequence[str], most_rows: int, most_bytes: int, *, others_are_refused: bool
) -> pa.Table:
    footer = int.from_bytes(content[-8:-4], "little")
    if footer > FOOTER_BYTES and content.endswith(b"PAR1"):
        raise _too_large(f"its description has {footer:,} bytes", FOOTER_BYTES)
    file = pq.ParquetFile(pa.BufferReader(content), thrift_container_size_limit=THRIFT_ITEMS)
    about = file.metadata
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    rows = max(about.num_rows, sum(group.num_rows for group in groups))
    if rows > most_rows:
        raise TableRefused("(file)", f"it has {rows:,} rows", f"give at most {most_rows:,}")
    wanted = [field for field in file.schema_arrow if field.name in set(names)]
    for name in file.schema_arrow.names if others_are_refused else ():
        if name not in names:
            raise TableRefused(name, "unknown column", suggestion(name, names))
    for field in wanted:
        if not _is_of_values(field.type):
            raise TableRefused(field.name, f"it holds {field.type}", "give a single value in each row")
    chosen = {field.name for field in wanted}
    chunks = [
        group.column(place)
        for group in groups
        for place in range(group.num_columns)
        if group.column(place).path_in_schema in chosen
    ]
    decoded = len(wanted) * rows * VALUE_BYTES + sum(_decoded_bytes(content, chunk) for chunk in chunks)
    if decoded > most_bytes:
        raise _too_large(f"its columns have {decoded:,} bytes when decoded", most_bytes)
    # Texts stay in their dictionary until it is clear how much they are.
    texts = [field.name for field in wanted if not pa.types.is_primitive(field.type)]
    file = pq.ParquetFile(
        pa.BufferReader(content), read_dictionary=texts, thrift_container_size_limit=THRIFT_ITEMS, pre_buffer=False
    )
    table = file.read(columns=[field.name for field in wanted], use_threads=False)
    nbytes = sum(_text_bytes(chunk) for name in texts for chunk in table[name].chunks)
    if nbytes > most_bytes:
        raise _too_large(f"its texts have {nbytes:,} bytes when decoded", most_bytes)
    for name in texts:
        table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.string()))
    return table


def _too_large(problem: str, most: int) -> TableRefused:
    return TableRefused("(file)", problem, f"give at most {most:,}")


def _is_of_values(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(is_one(kind) for is_one in (pa.types.is_primitive, pa.types.is_string, pa.types.is_large_string))


def _text_bytes(texts: pa.DictionaryArray) -> int:
    lengths = pc.binary_length(texts.dictionary.cast(pa.large_binary()))
    return int(pc.sum(pc.cast(lengths.take(texts.indices), pa.int64())).as_py() or 0)


def _decoded_bytes(content: bytes, chunk: pq.ColumnChunkMetaData) -> int:
    """Return the bytes that the pages of a column have when they are decompressed, as their headers say."""
    start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)), default=0)
    end = min(start + chunk.total_compressed_size, len(content))
    total = 0
    while start < end:
        try:
            header = Compact(content, start)
            sizes = {number: value for number, value in header.struct(depth=0) if number in (2, 3)}
            decoded, compressed = sizes[2], sizes[3]
        except (IndexError, KeyError) as error:
            raise pa.ArrowInvalid(f"the header of a page at byte {start} is damaged") from error
        if decoded < 0 or compressed < 0:
            raise pa.ArrowInvalid(f"the header of a page at byte {start} is damaged")
        total += decoded
        start = header.at + compressed
    return total


class Compact:
    """Reads the integers of a structure in Thrift's compact protocol, and skips all else.

    https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
    """

    DEEPEST = 8

    def __init__(self, content: bytes, at: int) -> None:
        self._content = content
        self.at = at

    def struct(self, depth: int) -> Iterator[tuple[int, int]]:
        """Read to the end of a structure, and yield its integers by the numbers of their fields."""
        if depth > self.DEEPEST:
            raise IndexError(depth)
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._integer()
            value = self._value(head & 15, depth)
            if value is not None:
                yield number, value

    def _value(self, kind: int, depth: int) -> int | None:
        match kind:
            case 1 | 2:  # a field that is true or false has no value
                pass
            case 3:
                self.at += 1
            case 4 | 5 | 6:
                return self._integer()
            case 7:
                self.at += 8
            case 8:
                length = self._unsigned()
                self.at += length
            case 12:
                for _ in self.struct(depth + 1):
                    pass
            case _:  # lists, sets and maps are in no header of a page
                raise IndexError(kind)
        return None

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
