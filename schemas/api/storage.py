"""Where the readings lie and how much room there is: the body of `GET /api/v1/storage`.

What changes several times a second (backlog, rates, when the journal is full) is in the status.
"""

from pydantic import Field

from schemas.api.model import Model


class PartitionStorage(Model):
    """One partition of a group's tables."""

    name: str
    start_ns: int = Field(
        description="start_ns <= time_ns < end_ns; the ends of int64 of what takes all that fits no other"
    )
    end_ns: int
    rows: int = Field(
        description="readings (`arrays` layout: triggers), the server's estimate where counting is expensive"
    )
    size_bytes: int = Field(description="on the server's disk, with indexes")
    tier: str | None = Field(default=None, description="where its readings lie; null without tiers, or in none of them")
    reduced: str | None = Field(default=None, description="what its readings became, in words; null: they are there")
    heat_s_a_day: float | None = Field(
        default=None,
        description="seconds a day that its readers wait longer, or would, where it lies on a slow disk; null where "
        "nobody counts",
    )


class ReducedStorage(Model):
    """What of a group was reduced: its partitions before and after, without the figures of them."""

    periods: int = Field(description="partitions that were reduced")
    readings: int = Field(description="readings that are there no more as they were")
    rows_before: int = Field(description="rows of these partitions")
    rows_after: int = Field(description="rows that stayed as they were, the server's estimate where that is cheaper")
    bytes_before: int = Field(description="what their readings took of the disk, with indexes")
    bytes_after: int = Field(description="what of that the rows that stayed take")
    from_ns: list[int] = Field(description="stretches of time: where each begins")
    to_ns: list[int] = Field(description="where each of these ends")


class JournalStorage(Model):
    """The journal of a group."""

    size_bytes: int = Field(description="what it takes of the disk")
    room_bytes: int = Field(description="what more may wait in it: up to its limit, or the end of the disk")
    limit_bytes: int = Field(description="the most it may take")
    segment_bytes: int = Field(description="size of its files; each goes once the database has all of it")
    problem: str | None = Field(description="why no more is written to it, in one line")


class GroupStorage(Model):
    """One group in the database."""

    rows: int = Field(description="rows (documents) of readings, the server's estimate where counting is expensive")
    readings: int = Field(
        description="readings stored: the server's estimate, or the account of this logger where that is more"
    )
    size_bytes: int = Field(description="tables with indexes, ledger included")
    bytes_a_reading: float | None = Field(description="of size_bytes; null before the first reading")
    growth_bytes_a_day: float | None = Field(description="at the rate at which readings are committed now")
    measured_bytes_a_day: float | None = Field(
        description="of the sizes that the server reported; null until they are a minute apart"
    )
    measured_over_s: float = Field(description="between these sizes: a day at most")
    partitions: list[PartitionStorage] = Field(description="in order of time; empty where the server has none")
    reduced: ReducedStorage | None = Field(default=None, description="what was reduced; null: nothing")
    journal: JournalStorage | None = Field(description="null without one")


class Storage(Model):
    """The whole of it."""

    time_ns: int
    sizes_age_s: float | None = Field(description="how old the sizes are; null before the server reported any")
    partitions_age_s: float | None = Field(
        description="how old the partitions are; null before the server reported any"
    )
    partitions_problem: str | None = Field(description="why they are no younger, in one line")
    database_is_here: bool = Field(description="whether the database lies in the state folder")
    free_bytes: int | None = Field(description="of the state folder's disk; null where its file system does not say")
    full_in_days: float | None = Field(
        description="until that disk is full at the growth measured, or else at the present rate; null where it does "
        "not grow, and where the database is elsewhere"
    )
    groups: dict[str, GroupStorage]
