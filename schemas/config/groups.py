"""Instrument groups and their channels."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from schemas.batch import Durability, Layout
from schemas.checking.fields import Form
from schemas.checking.problems import Problem, listed, refuse, suggestion, wrong
from schemas.conditions.calibration import BUTTONS, KIND, can_be_calibrated
from schemas.conditions.intervals import NAME_MOST
from schemas.conditions.rules import ConditionsRefused
from schemas.config.decimation import GroupDecimationConfig
from schemas.config.retention import GroupRetentionConfig
from schemas.config.section import Name, Section, twice
from schemas.folders.folders import check_new_folder
from schemas.folders.reports import folder_of
from schemas.readings import CHANNEL_DTYPES, HEADER, MAX_INSTRUMENTS, SYSTEM_COLUMNS, Channel, InstrumentGroup

RESERVED_GROUPS = frozenset({"ledger", "instruments", "positions", "groups", "runs", "marks", "dropped"})
RESERVED_ENDINGS = ("_ledger", "_readings", "_reduced")
RESERVED_CHANNELS = frozenset(
    {name for name, _ in HEADER} | {"run", "trigger_id", "time", "name", "time_offset_ns"} | set(SYSTEM_COLUMNS)
)

InstrumentName = Annotated[
    str,
    Field(pattern=r"^[^\s\x00-\x1f\x7f-\x9f]+$", min_length=1, max_length=64),
    Form(words="1 to 64 letters, digits and signs without a space"),
]
Unit = Annotated[
    str,
    Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=32),
    Form(words="at most 32 letters, digits and signs, all in one line"),
]


class ChannelConfig(Section):
    """One measured quantity of an instrument."""

    name: Name = Field(description="Name of the quantity and of its column.")
    unit: Unit = Field(default="", description="Unit, e.g. `mm`, `V`, `count`; shown, stored, exported.")
    dtype: str = Field(default="float64", description=f"Type of the value: {', '.join(CHANNEL_DTYPES)}.")

    @field_validator("dtype")
    @classmethod
    def _known(cls, dtype: str) -> str:
        if dtype not in CHANNEL_DTYPES:
            refuse([wrong(f"unknown dtype {dtype!r}", suggestion(dtype, CHANNEL_DTYPES))])
        return dtype

    @field_validator("name")
    @classmethod
    def _free(cls, name: str) -> str:
        if name in RESERVED_CHANNELS:
            refuse([wrong(f"{name!r} is a column of every table", "give the channel another name")])
        return name


class GroupConfig(Section):
    """An instrument group: instruments of one kind with the same channels; one table a group."""

    name: Name = Field(description="Name of the group and of its table, e.g. `bpm`.")
    count: int | None = Field(
        default=None,
        ge=1,
        le=MAX_INSTRUMENTS,
        description="How many instruments; they are named `<group>_000`, `<group>_001`, ... Instead of `instruments`.",
    )
    instruments: tuple[InstrumentName, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_INSTRUMENTS,
        description="Names of the instruments, in the order of their numbers. Instead of `count`.",
    )
    channels: tuple[ChannelConfig, ...] = Field(min_length=1, max_length=256, description="What each of them measures.")
    trigger_bits: Literal[8, 16, 32] | None = Field(
        default=None,
        description="Bits of the instruments' trigger counter, which begins again at 0 after its highest number. What "
        "they send then becomes a number that goes on, by the time of the reading and the numbers before it: their "
        "clocks have to agree within an eighth of a round. Left out, they send whole numbers.",
    )
    layout: Layout | None = Field(default=None, description="Layout of this group, where it differs from `[database]`.")
    durability: Durability | None = Field(
        default=None, description="Durability of this group, where it differs from `[database]`."
    )
    retention: GroupRetentionConfig = Field(
        default_factory=GroupRetentionConfig, description="Limits of this group, where they differ from `[retention]`."
    )
    decimation: GroupDecimationConfig = Field(
        default_factory=GroupDecimationConfig,
        description="Decimation of this group, where it differs from `[decimation]`.",
    )
    folder: str | None = Field(
        default=None,
        description="Path of a [folder of channels](folders.md), such as `/magnets/current`. The readings of this "
        "group are reports on change then, and become intervals of that folder: an instrument is a channel of it, a "
        "channel a column. It is made where it is missing; the group has no table. Not for MongoDB.",
    )
    payload_type: str | None = Field(
        default=None,
        min_length=1,
        max_length=NAME_MOST,
        description="Payload type of its calibrations, of which the global tag has a list; `bpm` when left out. Only "
        f"for groups with the channels {listed(BUTTONS)}.",
    )

    @field_validator("name")
    @classmethod
    def _free(cls, name: str) -> str:
        if name in RESERVED_GROUPS:
            refuse([wrong(f"{name!r} is a table of triggerlog's own", "give the group another name")])
        if name.endswith(RESERVED_ENDINGS):
            ends = f"{', '.join(RESERVED_ENDINGS[:-1])} and {RESERVED_ENDINGS[-1]}"
            refuse([wrong(f"the endings {ends} are for tables that go with a group", "give the group another name")])
        return name

    @model_validator(mode="after")
    def _check(self) -> "GroupConfig":
        refuse(
            [
                *_count_or_names(self.count, self.instruments),
                *twice("instrument", "instruments", "", self.instruments or ()),
                *twice("channel", "channels", ".name", [channel.name for channel in self.channels]),
                *_uncalibrated(self),
                *_not_for_folders(self),
            ]
        )
        return self

    @property
    def calibrated_as(self) -> str | None:
        """Payload type of its calibrations; None where no positions can be added to its readings."""
        is_calibrated = self.folder is None and can_be_calibrated([each.name for each in self.channels])
        return self.payload_type or KIND if is_calibrated else None

    def group(self) -> InstrumentGroup:
        """Give the group as the rest of the daemon knows it."""
        count = self.count or 0
        digits = max(3, len(str(count - 1)))
        names = self.instruments or tuple(f"{self.name}_{i:0{digits}d}" for i in range(count))
        channels = tuple(Channel(name=c.name, unit=c.unit, dtype=c.dtype) for c in self.channels)
        return InstrumentGroup(name=self.name, instruments=names, channels=channels, folder=self.folder)


def _count_or_names(count: int | None, instruments: Sequence[str] | None) -> Iterator[Problem]:
    if count is None and instruments is None:
        yield wrong("missing", "give `count`, or the names of the `instruments`", "count")
    if count is not None and instruments is not None:
        yield wrong("`instruments` is given too", "give one of them, not both", "count")


def _not_for_folders(group: GroupConfig) -> Iterator[Problem]:
    """What a folder cannot be or hold, and what does not apply to its group."""
    if group.folder is None:
        return
    for name, why in NOT_FOR_FOLDERS.items():
        if getattr(group, name) not in (None, GroupRetentionConfig(), GroupDecimationConfig()):
            yield wrong(f"the group reports into `folder`, {why}", "take it out", name)
    if (group.count is None) == (group.instruments is None):
        return
    try:
        check_new_folder(folder_of(group.group()))
    except ConditionsRefused as refused:
        known = {"path": "folder", "columns": "channels", "channels": "instruments"}
        name, _, rest = refused.field.partition("[")
        yield wrong(refused.problem, refused.fix, known.get(name, name) + (f"[{rest}" if rest else ""))


NOT_FOR_FOLDERS = {
    "trigger_bits": "whose reports belong to no trigger",
    "layout": "which has a layout of its own",
    "durability": "where every insertion is `sync`",
    "payload_type": "which is not calibrated",
    "retention": "of which nothing is dropped",
    "decimation": "of which nothing is reduced",
}


def _uncalibrated(group: GroupConfig) -> Iterator[Problem]:
    if group.payload_type is not None and group.calibrated_as is None and group.folder is None:
        fix = f"take it out, or give the channels {listed(BUTTONS)}, and neither x_mm nor y_mm"
        yield wrong("its channels are not the four buttons that are calibrated", fix, "payload_type")
