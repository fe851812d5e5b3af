"""Errors of databases, and how to fix them, in the same words whatever the database.

In order: what is stored differs from the configuration; a certificate is not trusted; a login is turned away, or an
answer takes too long; a period is not dropped; a row is no mark.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from backends.base import BatchRejected, SchemaMismatch, StoreBusy, StoreError, StoreLacks, StoreUnavailable
from backends.columns.stored import POSITION
from schemas.batch import Layout
from schemas.marks import Mark
from schemas.readings import Channel, InstrumentGroup
from schemas.retention import Period

ADDED = "bigint NOT NULL DEFAULT 0"


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Answers of the database about a group."""

    logger: str
    layout: str
    channels: tuple[Channel, ...]
    instruments: tuple[str, ...]


def difference(stored: Stored, group: InstrumentGroup, layout: Layout, logger: str) -> str | None:
    """Say what differs between the database and the configuration, and the fix; None when nothing does.

    A changed unit is no difference: it changes no stored byte.
    """
    other = "or log into another `schema`"
    if stored.logger != logger:
        return f"it is written by logger {stored.logger!r}, this is {logger!r}; set `logger` to that, {other}"
    if stored.layout != layout:
        return (
            f"its layout is {stored.layout!r}, the configuration says {layout.value!r}; set `layout` to that, {other}"
        )
    channels = _channels_differ(stored.channels, group.channels)
    if channels is not None:
        return f"{channels}; set `channels` to what is there, {other}"
    if len(stored.instruments) != group.size:
        return f"it has {len(stored.instruments)} instruments, the configuration {group.size}; set it to that, {other}"
    for number, (there, here) in enumerate(zip(stored.instruments, group.instruments, strict=True)):
        if there != here:
            return f"instrument {number} is {there!r}, the configuration says {here!r}; name it as it was, {other}"
    return None


def check_positions(schema: str, there: Collection[str], add: str, state: str) -> None:
    """See that the columns of `positions` are `there`; else it is an older triggerlog's, and the error has the fix.

    add: the statement that adds what is missing, up to the columns. state: the type of the column of this name.
    """
    lacking = [name for name in POSITION if name not in there]
    if not lacking:
        return
    columns = ", ".join(f"ADD COLUMN {name} {state if name == 'state' else ADDED}" for name in lacking)
    raise StoreLacks(
        f"table 'positions' in schema {schema!r} was made by an older triggerlog and has no {' and '.join(lacking)};"
        f" let its owner run {add} {columns}"
    )


def gone(schema: str, tables: Collection[str]) -> StoreLacks:
    """The error for a schema that lacks tables which triggerlog made: an operator has taken them away."""
    names = ", ".join(map(repr, sorted(tables)))
    return StoreLacks(f"schema {schema!r} has lost {names}; bring back what was there, or log into another `schema`")


def mismatch_of(found: Mapping[str, str], schema: str) -> SchemaMismatch:
    """The error for groups that are not stored as they are configured: by name, the difference and the fix."""
    return SchemaMismatch(
        "; ".join(f"group {name!r} in schema {schema!r}: {problem}" for name, problem in found.items()),
        groups=tuple(found),
    )


def not_ours(schema: str, table: str) -> str:
    """Say that a shared table is somebody else's, and the fix."""
    return f"schema {schema!r} has a table {table!r} that is not triggerlog's; set another `schema` in [database]"


def _channels_differ(there: Sequence[Channel], here: Sequence[Channel]) -> str | None:
    stored, wanted = {c.name: c.dtype for c in there}, {c.name: c.dtype for c in here}
    for name in stored.keys() - wanted.keys():
        return f"the configuration lacks channel {name!r} ({stored[name]})"
    for name in wanted.keys() - stored.keys():
        return f"it has no channel {name!r} ({wanted[name]})"
    for name, dtype in stored.items():
        if wanted[name] != dtype:
            return f"channel {name!r} is {dtype}, the configuration says {wanted[name]}"
    if [c.name for c in there] != [c.name for c in here]:
        return f"the order of its channels is {', '.join(stored)}"
    return None


REFUSED = re.compile(r"certificate verify failed: (?P<why>.*?)\.? \(_ssl", re.IGNORECASE)
"""The words of Python's ssl; drivers put it into texts of their own."""


@contextmanager
def certificate_refused(ca_option: str) -> Iterator[None]:
    """Say so with the fix if the server's certificate is not trusted: at a start no waiting helps.

    ca_option: of the DSN, that names the authority.
    """
    try:
        yield
    except StoreUnavailable as error:
        why = why_refused(error)
        if why is None:
            raise
        target = str(error).partition(" ")[0]
        fix = f"name the authority that signed it in `dsn` ({ca_option}=/path/of/ca.crt)"
        if "mismatch" in why or "not valid for" in why:
            fix = "name the host in `dsn` as the certificate does"
        raise StoreError(f"{target} shows a certificate that is not trusted ({why}); {fix}") from None


def why_refused(error: BaseException | None) -> str | None:
    """Why a certificate was not trusted, if that is what an error is about."""
    while error is not None:
        found = REFUSED.search(str(error))
        if found is not None:
            return found["why"]
        error = error.__cause__ or error.__context__
    return None


DETAIL_MOST = 300
"""Characters of what a server says of one row."""

REPAIR = "bring back the tables as triggerlog made them, with the login's rights to them: `triggerlog check-config`"
"""The fix where something is lacking."""

NUMBER = r"(?<![\w.$])[-+]?\d[\d.]*(?:[eE][-+]?\d+)?(?![\w.])"


def rejected(
    target: str, message: str, code: object, *, detail: str = "", context: str = "", values: str = NUMBER
) -> BatchRejected:
    """The error for a batch that a server will never take.

    Args:
        target: what messages call the server.
        message: the server's, in one line.
        code: its code for the error.
        detail: what else the server says of the row; else it is the message, where that has values, or the context.
        context: where the server was.
        values: a regular expression: what of the message is a value of a row.
    """
    reason = without_values(message, values)
    said = detail or (message if reason != message else context)
    return BatchRejected(f"{target} refuses: {reason} ({code})", shortened(said))


def passing(
    target: str, message: str, code: object, *, is_busy: bool = False, is_lacking: bool = False
) -> StoreUnavailable:
    """The error for what a server refuses for no fault of a row: it is tried again until it passes.

    is_busy: only others are in the way. is_lacking: an operator has to give something back.
    """
    text = f"{target} cannot do it now: {message} ({code})"
    if is_lacking:
        return StoreLacks(f"{text}; {REPAIR}")
    return StoreBusy(text) if is_busy else StoreUnavailable(text)


def without_values(message: str, values: str = NUMBER) -> str:
    """A message without what differs from row to row: `...` in its place. Names in quotes stay."""
    return re.sub(rf"({values})|\"[^\"]*\"|'[^']*'|`[^`]*`", lambda found: "..." if found[1] else found[0], message)


def shortened(text: str) -> str:
    """A text in one line of at most `DETAIL_MOST` characters."""
    line = " ".join(text.split())
    return line if len(line) <= DETAIL_MOST else f"{line[:DETAIL_MOST]}..."


@contextmanager
def login_refused(ca_option: str, fix_of: Callable[[BaseException | None], str | None]) -> Iterator[None]:
    """Where the server turned the login away, say so with the fix: at a start no waiting helps.

    ca_option: of the DSN, that names the authority of TLS.
    fix_of: takes what the driver raised, and gives what to do where that is about the login or a right.
    """
    try:
        with certificate_refused(ca_option):
            yield
    except StoreUnavailable as error:
        fix = fix_of(error.__cause__)
        if fix is None:
            raise
        raise StoreError(f"{error}; {fix}") from None


@contextmanager
def taken_too_long(target: str, give_up_s: float, gave_up: Callable[[Exception], bool]) -> Iterator[None]:
    """Say so where a question is given up for its time, here or by the server.

    gave_up: takes what the driver raised.

    Raises:
        StoreUnavailable: instead of TimeoutError, or of what the server answers.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, StoreError) or not (isinstance(error, TimeoutError) or gave_up(error)):
            raise
        raise StoreUnavailable(f"{target}: the answer took longer than {give_up_s:g} s, and was given up") from error


AHEAD_MOST_NS = 3_600_000_000_000
"""By age nothing is dropped if the daemon's clock is further ahead of the server's."""


def see_clocks(at_ns: int, server_ns: int) -> None:
    """See that it is not the daemon's clock alone that makes a period old.

    at_ns, server_ns: now, by the daemon's clock and by the server's (UTC, ns).

    Raises:
        StoreError: the daemon's is too far ahead.
    """
    if at_ns - server_ns > AHEAD_MOST_NS:
        hours = (at_ns - server_ns) / 3.6e12
        raise StoreError(
            f"the clock of the daemon's node is {hours:,.1f} hours ahead of the database server's: age drops"
            " nothing until the one that is wrong is set"
        )


def no_such(period: Period) -> StoreError:
    """There is nothing to drop."""
    return StoreError(f"group {period.group!r} has no partition {period.name!r} with readings")


def dropped_meanwhile(run: int, trigger: int) -> BatchRejected:
    """A reading came late for arrays that were dropped: alone they would be a part of a period without the rest."""
    reason = "the readings of its time were dropped by retention"
    return BatchRejected(reason, f"trigger {trigger} of run {run}")


def stored_mark(table: str, fields: dict[str, Any]) -> Mark:
    """The mark that these fields are.

    Raises:
        StoreError: they are none.
    """
    try:
        return Mark.model_validate(fields)
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"])) or "until_ns"
        raise StoreError(
            f"{table} has a row {fields['id']!r} that is no mark, by its {field}; correct or remove it"
        ) from None
