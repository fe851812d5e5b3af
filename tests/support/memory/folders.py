"""A store of folders in memory, for tests: it keeps every promise of `FoldersStore` but to last.

A folder's intervals are replaced, and never changed.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from backends.base import StoreError, is_committed
from schemas.batch import JournalPosition
from schemas.conditions.intervals import NAME_MOST
from schemas.conditions.rules import check_text, exists, unknown
from schemas.folders.blocks import (
    OPEN,
    Insertion,
    check_span,
    check_times,
    checked,
    checked_reports,
    joined,
    see_channels,
)
from schemas.folders.folders import (
    Folder,
    FolderKind,
    FolderSet,
    FolderTag,
    NewFolder,
    check_empty,
    check_new_channels,
    check_new_folder,
    check_path,
    check_tag_name,
    is_below,
    is_no_set,
    no_versions,
    sets_above,
)
from schemas.folders.timeline import (
    Changes,
    Reported,
    changes_of_multi,
    changes_of_reports,
    changes_of_single,
    holding,
    newest,
    pieces,
)
from schemas.readings import Array


@dataclass(kw_only=True)
class _Folder:
    about: Folder
    channels: dict[int, str]
    block: Array
    versions: Array
    positions: dict[str, JournalPosition] = field(default_factory=dict)
    tags: dict[str, FolderTag] = field(default_factory=dict)

    def put(self, insertion: Insertion) -> bool:
        """Insert intervals."""
        block = checked(self.about, insertion)
        if self._is_there(insertion):
            return False
        self._see_channels(block)
        is_open = self.block["until"] == OPEN
        if self.about.kind is FolderKind.MULTI:
            changes = changes_of_multi(block)
        else:
            opened = self.block[is_open & np.isin(self.block["channel"], block["channel"])]
            changes = changes_of_single(block, opened, self.block[~is_open])
        self._change(changes, insertion)
        return True

    def report(self, insertion: Insertion, *, whole: bool, rehearse: bool) -> Reported:
        """Insert reports."""
        reports = checked_reports(self.about, insertion)
        is_there = self._is_there(insertion)
        self._see_channels(reports)
        changes, reported = changes_of_reports(reports, self.block)
        if is_there or rehearse or (whole and reported.conflicts):
            return replace(reported, stored=0)
        self._change(changes, insertion)
        return reported

    def _is_there(self, insertion: Insertion) -> bool:
        return is_committed(self.positions.get(insertion.source, JournalPosition(sequence=0)), insertion)

    def _see_channels(self, block: Array) -> None:
        see_channels(block, np.array(sorted(self.channels), np.int32), self.about.path)

    def _change(self, changes: Changes, insertion: Insertion) -> None:
        key = ["channel", "since"]
        stays = ~np.isin(self.block[key], changes.replaced[key])
        new = (changes.closed, changes.opened, changes.replaced)
        version = self.about.version + 1
        self.block = joined([self.block[stays], *new], self.about.dtype)
        self.versions = np.append(self.versions[stays], np.full(sum(map(len, new)), version))
        self.positions[insertion.source] = insertion.position
        self.about = replace(self.about, version=version)

    def seen(self, tag: str | None) -> tuple[Array, Array]:
        """Intervals and their versions, as far as a tag has them."""
        if tag is None:
            return self.block, self.versions
        if tag not in self.tags:
            raise unknown("tag", f"tag {tag} of {self.about.path}")
        there = self.versions <= self.tags[tag].version
        return self.block[there], self.versions[there]


class MemoryFoldersStore:
    """A store of folders that forgets everything with its process; its methods are those of `FoldersStore`."""

    def __init__(self) -> None:
        self._failure: StoreError | None = None
        self._sets: dict[str, FolderSet] = {}
        self._folders: dict[str, _Folder] = {}

    def fail_with(self, error: StoreError | None) -> None:
        """Make every call raise this, until it is called with None."""
        self._failure = error

    async def create(self) -> None:
        """There is nothing to create."""
        self._check()

    async def check(self) -> None:
        """There is nothing to create."""
        self._check()

    async def close(self) -> None:
        """There is nothing to give back."""

    async def drop(self) -> None:
        """Forget everything."""
        self._check()
        self._sets, self._folders = {}, {}

    # --- the tree ----------------------------------------------------------------------------------------------------

    async def add_set(self, path: str, description: str = "") -> FolderSet:
        """Add a set, and those above it."""
        check_path(path)
        check_text("description", description, NAME_MOST)
        self._add_above(path)
        self._sets[path] = made = FolderSet(path=path, description=description, created_ns=time.time_ns())
        return made

    async def sets(self) -> Sequence[FolderSet]:
        """All sets, by path."""
        self._check()
        return [self._sets[path] for path in sorted(self._sets)]

    async def add_folder(self, new: NewFolder) -> Folder:
        """Add a folder, and the sets above it."""
        check_new_folder(new)
        self._add_above(new.path)
        made = Folder(
            path=new.path,
            kind=new.kind,
            layout=new.layout,
            columns=new.columns,
            description=new.description,
            version=0,
            created_ns=time.time_ns(),
        )
        self._folders[new.path] = _Folder(
            about=made, channels=dict(new.channels), block=np.empty(0, new.dtype), versions=np.empty(0, np.int64)
        )
        return made

    async def folders(self) -> Sequence[Folder]:
        """All folders, by path."""
        self._check()
        return [self._folders[path].about for path in sorted(self._folders)]

    async def folder(self, path: str) -> Folder:
        """One folder."""
        return self._folder(path).about

    async def remove(self, path: str) -> None:
        """Remove a folder, or a set that is empty."""
        self._check()
        if path in self._folders:
            del self._folders[path]
        elif path in self._sets:
            check_empty(path, (*self._sets, *self._folders))
            del self._sets[path]
        else:
            raise unknown("path", path)

    async def add_channels(self, path: str, channels: Mapping[int, str]) -> None:
        """Add channels to a folder."""
        there = self._folder(path)
        check_new_channels(channels, there.channels)
        there.channels.update(channels)

    async def channels(self, path: str) -> Mapping[int, str]:
        """Names of a folder's channels by number."""
        return dict(sorted(self._folder(path).channels.items()))

    async def add_tag(self, path: str, name: str) -> Sequence[FolderTag]:
        """Name the versions that folders have now."""
        self._check()
        check_tag_name(name)
        if path not in self._sets and path not in self._folders:
            raise unknown("path", path)
        within = [each for at, each in sorted(self._folders.items()) if at == path or is_below(at, path)]
        multi = [each for each in within if each.about.kind is FolderKind.MULTI]
        if not multi:
            raise no_versions(path)
        for each in multi:
            if name in each.tags:
                raise exists("tag", f"tag {name} of {each.about.path}")
        now_ns = time.time_ns()
        for each in multi:
            about = each.about
            each.tags[name] = FolderTag(path=about.path, name=name, version=about.version, created_ns=now_ns)
        return [each.tags[name] for each in multi]

    async def tags(self, path: str) -> Sequence[FolderTag]:
        """Tags of a folder, by name."""
        return [each for _, each in sorted(self._folder(path).tags.items())]

    async def remove_tag(self, path: str, name: str) -> None:
        """Remove a tag of a folder."""
        there = self._folder(path)
        there.seen(name)
        del there.tags[name]

    # --- intervals ---------------------------------------------------------------------------------------------------

    async def insert(self, path: str, insertion: Insertion) -> bool:
        """Insert intervals into a folder, exactly once."""
        return self._folder(path).put(insertion)

    async def report(self, path: str, insertion: Insertion, *, whole: bool = False, rehearse: bool = False) -> Reported:
        """Insert reports on change, exactly once."""
        return self._folder(path).report(insertion, whole=whole, rehearse=rehearse)

    async def position(self, path: str, source: str) -> JournalPosition | None:
        """Which insertion of a source was the last."""
        return self._folder(path).positions.get(source)

    # --- questions ---------------------------------------------------------------------------------------------------

    async def snapshot(self, path: str, at: int, tag: str | None = None) -> Array:
        """What is valid at a time."""
        check_times(at=at)
        block, versions = self._folder(path).seen(tag)
        valid = (block["since"] <= at) & (block["until"] > at)
        return newest(block[valid], versions[valid])

    async def history(self, path: str, channel: int, since: int, until: int, tag: str | None = None) -> Array:
        """Intervals of a channel."""
        check_span(since, until)
        there = self._folder(path)
        block, versions = there.seen(tag)
        if channel not in there.channels:
            raise unknown("channel", f"channel {channel} of {path}")
        of = block["channel"] == channel
        return holding(pieces(block[of], versions[of]), since, until)

    async def changes(self, path: str, after: int, upto: int, tag: str | None = None) -> Array:
        """Intervals that begin in a span of time."""
        check_times(after=after, upto=upto)
        block, versions = self._folder(path).seen(tag)
        begun = block["since"] <= upto
        found = pieces(block[begun], versions[begun])
        return found[(found["since"] > after) & (found["since"] <= upto)]

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _folder(self, path: str) -> _Folder:
        self._check()
        if path not in self._folders:
            raise unknown("path", f"folder {path}")
        return self._folders[path]

    def _add_above(self, path: str) -> None:
        """Add the sets that are missing above something new; sees that it may be there."""
        self._check()
        if path in self._sets or path in self._folders:
            raise exists("path", path)
        for above in sets_above(path):
            if above in self._folders:
                raise is_no_set(above)
        for above in sets_above(path):
            self._sets.setdefault(above, FolderSet(path=above, description="", created_ns=time.time_ns()))
