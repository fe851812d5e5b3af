"""The store of folders of channels: what each database implements.

Like a `Store` it only writes and reads: no retry, no sleep. Each method that changes something is one transaction, all
of it or none, at durability `sync`; two that change the same folder wait for each other. Answers are of one moment.
What an insertion changes is decided in `schemas.folders.timeline`, the same for every database.

Every method raises StoreUnavailable (backends.base) when the database does not answer in time, after which the store is
still usable; and ConditionsRefused (schemas.conditions.rules) where what is named is not there, is taken, or where a
rule does not permit it. A method that was refused has changed nothing.

Several processes may use one schema at the same time, with a store each; calls of one store may overlap.

Blocks are structured arrays of `Folder.dtype`, shape (n,): channel, since, until and the columns. Answers are in the
order of (channel, since). `tag` is the name of a tag of a multi-version folder; None is HEAD, and all there is for
single-version ones. Times that are asked for are integers of -1 to 2^63 - 1; others are refused.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from schemas.batch import JournalPosition
from schemas.folders.blocks import Insertion
from schemas.folders.folders import Folder, FolderSet, FolderTag, NewFolder
from schemas.folders.timeline import Reported
from schemas.readings import Array


class FoldersStore(Protocol):
    """Folders in one schema of a database."""

    async def create(self) -> None:
        """Create the schema and the tables, or check those that are there.

        Raises:
            SchemaMismatch: they are not as this store makes them.
        """

    async def check(self) -> None:
        """See that `create` would do, and change nothing.

        Raises:
            StoreError: it would not; the message names the problem and the fix.
        """

    async def close(self) -> None:
        """Give back the connections."""

    async def drop(self) -> None:
        """Remove the schema with everything in it; nothing happens when it is not there."""

    # --- the tree ----------------------------------------------------------------------------------------------------

    async def add_set(self, path: str, description: str = "") -> FolderSet:
        """Add a set, and those above it that are missing. Refused: something is there, or a folder is above it."""

    async def sets(self) -> Sequence[FolderSet]:
        """All sets, by path."""

    async def add_folder(self, new: NewFolder) -> Folder:
        """Add a folder, and the sets above it that are missing.

        Refused: something is there, a folder is above it, or `check_new_folder` does not permit it.
        """

    async def folders(self) -> Sequence[Folder]:
        """All folders, by path."""

    async def folder(self, path: str) -> Folder:
        """One folder. Refused: unknown."""

    async def remove(self, path: str) -> None:
        """Remove a folder with all that is in it, or a set. Refused: unknown, or a set that is not empty."""

    async def add_channels(self, path: str, channels: Mapping[int, str]) -> None:
        """Add channels to a folder, names by number. Refused: unknown folder, a number or a name is taken."""

    async def channels(self, path: str) -> Mapping[int, str]:
        """Names of a folder's channels by number, in their order. Refused: unknown folder."""

    # --- intervals ---------------------------------------------------------------------------------------------------

    async def insert(self, path: str, insertion: Insertion) -> bool:
        """Insert intervals into a folder, all or none, and move the position of their source with them.

        False where the insertion was there already, and nothing changed; so that giving it again is harmless.
        In a single-version folder an open interval ends where the next one of its channel begins: one of the block
        where the next one of the block does, then those that are there. An end (until = since) ends it as well. In a
        multi-version folder an insertion is a new version, which hides what it overlaps; nothing is ended.
        Refused: unknown folder or channel, what `blocks.checked` does not permit; in a single-version folder an
        interval that overlaps another one; in a multi-version folder one that overlaps another one of the same block.

        Raises:
            CommitsLost: the server is behind `insertion.follows`.
            OtherJournal: the server is at the position of a journal that the insertion's does not follow.
        """

    async def report(self, path: str, insertion: Insertion, *, whole: bool = False, rehearse: bool = False) -> Reported:
        """Insert reports on change into a single-version folder, and move the position of their source with them.

        A report holds from its time on until the next one of its channel, whatever the order in which they come; see
        `timeline.changes_of_reports`. One that is there already, by channel and time, changes nothing. Where another
        value has its channel and time it is told as a conflict, and the others are stored; with `whole` nothing is
        then, and the position stays, so that a conflict can be kept elsewhere before. With `rehearse` nothing is stored
        in any case.
        An insertion that was there already changes nothing; its reports are told as those that are there, so that who
        has not heard the first answer still learns which of them conflict.
        Refused, with all reports: unknown folder or channel, what `blocks.checked_reports` does not permit.

        Raises:
            CommitsLost: the server is behind `insertion.follows`.
            OtherJournal: the server is at the position of a journal that the insertion's does not follow.
        """

    async def position(self, path: str, source: str) -> JournalPosition | None:
        """Which insertion of a source was the last; None before the first. Refused: unknown folder."""

    async def add_tag(self, path: str, name: str) -> Sequence[FolderTag]:
        """Name the version that a multi-version folder has now; of a set, all multi-version folders below it.

        Refused: unknown path, a folder has a tag of this name, no multi-version folder is there.
        """

    async def tags(self, path: str) -> Sequence[FolderTag]:
        """Tags of a folder, by name. Refused: unknown folder."""

    async def remove_tag(self, path: str, name: str) -> None:
        """Remove a tag of a folder; no interval goes. Refused: unknown folder or tag."""

    # --- questions ---------------------------------------------------------------------------------------------------

    async def snapshot(self, path: str, at: int, tag: str | None = None) -> Array:
        """What is valid at a time, of each channel that has something then: since <= at < until.

        An interval of a multi-version folder is given as it was inserted, also where a newer one hides some of it.
        Refused: unknown folder or tag.
        """

    async def history(self, path: str, channel: int, since: int, until: int, tag: str | None = None) -> Array:
        """Intervals of a channel that hold some of since <= t < until.

        Of a multi-version folder what no newer version hides, in pieces if need be.
        Refused: unknown folder, channel or tag.
        """

    async def changes(self, path: str, after: int, upto: int, tag: str | None = None) -> Array:
        """Intervals that begin in after < since <= upto; of a multi-version folder the pieces that do, as `history`.

        What begins after `upto` hides nothing here: the `until` of a piece is as if there were nothing yet.

        Who has the snapshot at `after` has the one at `upto` when he puts the last of each channel in the place of what
        he had, and then leaves out all with until <= upto. Ends are among them, with until = since.
        Refused: unknown folder or tag.
        """
