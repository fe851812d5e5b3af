"""Folders of channels: what the routes below `/api/v1/folders` take and answer.

Times are integers of 0 to 2^63 - 1, such as nanoseconds since 1970-01-01 UTC.
"""

from typing import Annotated

from pydantic import Field

from schemas.api.model import Model
from schemas.conditions.intervals import LARGEST
from schemas.folders import folders
from schemas.folders.folders import FolderKind, FolderLayout

NPY = "application/x-npy"
"""Media type of an array in numpy's own format."""

Time = Annotated[int, Field(ge=0, le=LARGEST)]
Channels = Annotated[dict[int, str], Field(description="names by number")]
Values = dict[str, list[float | str]]
"""By column a value an interval."""


class FolderColumn(Model):
    """A column of a folder's values."""

    name: str
    dtype: str = Field(description="type of a number, such as `float64`, or `text`")
    width: int = Field(default=0, description="most bytes in UTF-8 of a text; 0 for a number")

    def column(self) -> folders.Column:
        """The same, as stores have it."""
        return folders.Column(**self.model_dump())


class NewFolder(Model):
    """Body of `POST /api/v1/folders`."""

    path: str = Field(description="such as `/magnets/quads/current`; sets above it that are missing are added")
    columns: tuple[FolderColumn, ...] = Field(description="of its values, at least one")
    kind: FolderKind = Field(
        default=FolderKind.SINGLE, description="`multi`: each insertion is a version, which tags can name"
    )
    layout: FolderLayout = Field(default=FolderLayout.WINDOW, description="how it lies in the database")
    channels: Channels = Field(default_factory=dict)
    description: str = ""

    def folder(self) -> folders.NewFolder:
        """The same, as stores take it."""
        return folders.NewFolder(
            path=self.path,
            columns=tuple(each.column() for each in self.columns),
            kind=self.kind,
            layout=self.layout,
            channels=self.channels,
            description=self.description,
        )


class NewFolderSet(Model):
    """Body of `POST /api/v1/folders/sets`."""

    path: str = Field(description="sets above it that are missing are added")
    description: str = ""


class NewChannels(Model):
    """Body of `POST /api/v1/folders/channels`."""

    path: str = Field(description="of the folder")
    channels: Channels


class FolderSetDescription(Model):
    """A set of folders and sets."""

    path: str
    description: str
    created_ns: int


class FolderDescription(Model):
    """A folder."""

    path: str
    kind: FolderKind
    layout: FolderLayout
    columns: tuple[FolderColumn, ...]
    description: str
    version: int = Field(description="how many insertions it has had")
    created_ns: int

    @classmethod
    def of(cls, folder: folders.Folder) -> "FolderDescription":
        """Describe a folder."""
        return cls.model_validate(folder, from_attributes=True)


class FolderTagDescription(Model):
    """A tag: the version that a multi-version folder had when it was tagged."""

    path: str
    name: str
    version: int
    created_ns: int


class FolderTree(Model):
    """Body of `GET /api/v1/folders`."""

    sets: list[FolderSetDescription] = Field(description="by path; the root is not among them")
    folders: list[FolderDescription] = Field(description="by path")


class FolderDetails(Model):
    """Body of `GET /api/v1/folders/folder`."""

    folder: FolderDescription
    channels: Channels
    tags: list[FolderTagDescription] = Field(description="by name")


class FolderTags(Model):
    """Body of `POST /api/v1/folders/tags`."""

    tags: list[FolderTagDescription] = Field(description="those that were added, one a folder")


class FolderRemoved(Model):
    """Body of the answers to `DELETE`: what was removed, and what channels were added to."""

    path: str


class ChannelsAdded(Model):
    """Body of the answer to `POST /api/v1/folders/channels`."""

    path: str
    added: int


class SourcePosition(Model):
    """Body of `GET /api/v1/folders/position`: which insertion of a source was the last one."""

    path: str
    source: str
    sequence: int = Field(description="its number; 0 before the first")
    journal: int = Field(description="what counts it; 0 where nobody named one")


class IntervalColumns(Model):
    """Intervals as columns: all lists have one value an interval, in the same order.

    Body of the answers to questions for intervals, and of `POST /api/v1/folders/intervals`.
    """

    channel: list[Annotated[int, Field(ge=0, le=folders.CHANNEL_MOST)]] = Field(description="numbers of the channels")
    since: list[Time] = Field(description="from when on each value holds")
    until: list[Time | None] = Field(description="up to when, without this; null where nobody knows yet")
    values: Values


class Inserted(Model):
    """Body of the answers to insertions."""

    path: str
    source: str
    sequence: int
    intervals: int = Field(description="how many there are in the block")
    inserted: bool = Field(description="false where this insertion was there already, and nothing changed")
