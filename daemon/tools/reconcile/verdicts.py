"""Compares the numbers of the daemon, of the account in the database, and of the count there.

Numbers go in, verdicts come out; `daemon.tools.reconcile.survey` asks for the numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from daemon.pipeline.files import Amount
from schemas.api.status import GroupStatus
from schemas.batch import Layout
from schemas.readings import Array

RUNS_NAMED = 3
"""How many runs with a difference a verdict names."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What was found of a group.

    totals: `schemas.queries.TOTALS`, counted in the database.
    before, after: the status just before and just after that; None where no daemon answers.
    received: readings in the journal that are in no other count of the daemon; without one, at most so many that the
    database does not have.
    dead: the dead letters.
    lost: readings that the database had acknowledged when the daemon started, or ended, and has no more.
    removed: readings that were removed from the database on purpose, by the operator.
    reduced: rows of `totals` that count as dropped and were reduced, as told after the count.
    """

    group: str
    layout: Layout
    totals: Array
    before: GroupStatus | None = None
    after: GroupStatus | None = None
    received: int = 0
    dead: Amount
    lost: int = 0
    removed: int = 0
    reduced: int = 0

    def counted(self, name: str) -> int:
        """A column of `totals`, summed over the runs."""
        return int(self.totals[name].sum())

    def of_group(self, name: str) -> int:
        """A column of `totals` that is the group's."""
        return int(self.totals[name][0])

    @property
    def recorded(self) -> str:
        """The column of the ledger that the data table's rows are compared with."""
        return "arrived" if self.layout is Layout.ROWS else "triggers"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One comparison: what was compared, whether it agrees, and the result, with what to do where it does not."""

    what: str
    agrees: bool
    result: str


def judge(found: Findings) -> list[Verdict]:
    """Compare everything that can be."""
    return [*_law(found), *_since_start(found), *_lost(found), _account(found), _table(found)]


def _table(found: Findings) -> Verdict:
    unit = "readings" if found.layout is Layout.ROWS else "triggers"
    rows, ledger, dropped = found.counted("stored"), found.counted(found.recorded), found.counted("dropped")
    difference, moved = rows + dropped - ledger, found.of_group(f"moved_{unit}")
    what = "data table and ledger"
    if abs(difference) <= moved:
        gone = _gone(dropped, min(found.reduced, dropped))
        return Verdict(
            what=what,
            agrees=True,
            result=f"{ledger:,} {unit} in both{gone}{_while_moving(difference, moved, unit)}",
        )
    by_run = _by_run(found)
    if difference < 0:
        result = (
            f"the data table lacks {-difference:,} {unit} that the ledger has{by_run}: its rows were deleted, or a"
            " partition of it alone was dropped; restore them from a backup, or drop the same span of the ledger"
        )
    else:
        result = (
            f"the data table has {difference:,} {unit} more than the ledger{by_run}: another program inserted rows,"
            " or ledger rows deleted; look for (run, trigger_id) with more rows than the ledger's `arrived`"
        )
    return Verdict(what=what, agrees=False, result=result)


def _gone(dropped: int, reduced: int) -> str:
    """What of the ledger's rows has no readings any more, in words."""
    by_retention = [f"{dropped - reduced:,} dropped by retention"] if dropped > reduced else []
    parts = [*by_retention, *([f"{reduced:,} reduced"] if reduced else [])]
    return f", with the {' and '.join(parts)}" if parts else ""


def _lost(found: Findings) -> Iterator[Verdict]:
    """Compare the database with what the state folder notes: put back as a whole, it agrees with itself."""
    if found.lost:
        yield Verdict(
            what="database and state folder",
            agrees=False,
            result=f"{found.lost:,} readings were acknowledged and are in the database no more: it was put back to an"
            " older state, or is another one; stop the daemon and put the right one in its place, or restore them from"
            " a backup",
        )


def _account(found: Findings) -> Verdict:
    what = "ledger and account"
    arrived, account = found.counted("arrived"), found.of_group("account_readings")
    triggers = found.counted("triggers") - found.of_group("account_triggers")
    readings, moved = arrived + found.removed - account, found.of_group("moved_readings")
    # The number of triggers of the removed readings is not known.
    same = not triggers or found.removed or abs(triggers) <= found.of_group("moved_triggers")
    if same and abs(readings) <= moved:
        gone = f" with the {found.removed:,} removed" if found.removed else ""
        moving = _while_moving(readings, moved, "readings")
        return Verdict(
            what=what, agrees=True, result=f"{account:,} readings were committed, and are there{gone}{moving}"
        )
    return Verdict(what=what, agrees=False, result=_account_differs(found.group, readings, triggers))


def _account_differs(group: str, readings: int, triggers: int) -> str:
    if readings > 0 or (not readings and triggers > 0):
        return (
            f"the ledger has {abs(readings):,} readings ({abs(triggers):,} triggers) more than were ever committed by"
            " the account: `positions` was restored or recreated, or an older triggerlog wrote them; if data table and"
            " ledger agree, set `triggers` and `readings` there to what was counted while no daemon runs"
        )
    return (
        f"{abs(readings):,} readings ({abs(triggers):,} triggers) were committed and are not in the ledger: old"
        " partitions were dropped or rows deleted, or the server lost what it had acknowledged; if it was on purpose,"
        f" give --group {group} --removed {abs(readings)}, else restore them from a backup"
    )


def _law(found: Findings) -> Iterator[Verdict]:
    for status in (found.before, found.after):
        if status is not None and status.readings.unaccounted:
            yield Verdict(
                what="what came and where it went",
                agrees=False,
                result=f"{status.readings.unaccounted:,} readings came in and are missing: a defect of triggerlog;"
                " report it with the output of `triggerlog status --json`",
            )
            return
    if found.after is not None:
        yield Verdict(
            what="what came and where it went",
            agrees=True,
            result=f"{found.after.readings.received:,} readings, each committed or accounted for",
        )


def _since_start(found: Findings) -> Iterator[Verdict]:
    """Compare the account with what the daemon has committed: it moved on between the two answers of the daemon."""
    if found.before is None or found.after is None:
        return
    least, most = (each.readings.account_at_start + each.readings.committed for each in (found.before, found.after))
    account = found.of_group("journal_readings")
    agrees = least <= account <= most
    start = found.after.readings.account_at_start
    result = f"{start:,} readings at the daemon's start, {account - start:,} committed since"
    if account < least:
        result = (
            f"the account is {least - account:,} readings behind what this daemon committed: the server lost what it"
            " had acknowledged (see `durability` in `triggerlog status`), or `positions` was restored; the next commit"
            " sets it right, and data table and ledger show what is lost"
        )
    elif account > most:
        result = (
            f"the account is {account - most:,} readings ahead of what this daemon committed: another program writes"
            " the group, or changed `positions`; stop it, or set `positions` back"
        )
    yield Verdict(what="account and daemon", agrees=agrees, result=result)


def _while_moving(difference: int, moved: int, unit: str) -> str:
    if not moved:
        return ""
    return f", as far as is known while {moved:,} {unit} came ({difference:+,}); for an exact count stop the daemon"


def _by_run(found: Findings) -> str:
    differences = found.totals["stored"] + found.totals["dropped"] - found.totals[found.recorded]
    where = np.flatnonzero(differences)
    if len(found.totals) < 2 or not len(where):
        return ""
    named = [f"{differences[k]:+,} in run {found.totals['run'][k]}" for k in where[:RUNS_NAMED]]
    more = f" and {len(where) - RUNS_NAMED} more" if len(where) > RUNS_NAMED else ""
    return f" ({', '.join(named)}{more})"
