"""What there is: sets, folders, channels, tags. Whoever changes the tree is alone with it; see `SqlFoldersStore`."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from backends.sql.folders.session import SET, FoldersSession, FolderTables, StoredFolder, tables_of_new
from backends.sql.session import placeholders
from schemas.conditions.intervals import NAME_MOST
from schemas.conditions.rules import check_text, exists, unknown
from schemas.folders.folders import (
    Column,
    Folder,
    FolderKind,
    FolderLayout,
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
    see_path,
    sets_above,
)

NODE = ("id", "path", "kind", "layout", "columns", "description", "version", "created_ns", "token")


async def add_set(session: FoldersSession, path: str, description: str) -> FolderSet:
    """Add a set, and those above it."""
    check_path(path)
    check_text("description", description, NAME_MOST)
    await _see_free(session, path)
    await _add_sets_above(session, path)
    return await _insert_set(session, path, description)


async def sets(session: FoldersSession) -> Sequence[FolderSet]:
    """All sets, by path."""
    text = f"SELECT path, description, created_ns FROM {session.nodes} WHERE kind = $1"
    found = [
        FolderSet(path=path, description=about, created_ns=ns) for path, about, ns in await session.fetch(text, SET)
    ]
    return sorted(found, key=lambda each: each.path)


async def add_folder(session: FoldersSession, schema: str, new: NewFolder) -> Folder:
    """Add a folder with its tables, and the sets above it."""
    check_new_folder(new)
    await _see_free(session, new.path)
    token = uuid4().hex[:16]
    await session.create_folder(tables_of_new(schema, new, token))
    await _add_sets_above(session, new.path)
    made = Folder(
        path=new.path,
        kind=new.kind,
        layout=new.layout,
        columns=new.columns,
        description=new.description,
        version=0,
        created_ns=time.time_ns(),
    )
    id_ = await _insert_node(session, made, token)
    await _insert_channels(session, id_, new.channels)
    return await folder(session, new.path)


async def folders(session: FoldersSession) -> Sequence[Folder]:
    """All folders, by path."""
    found = await session.fetch(f"SELECT {', '.join(NODE)} FROM {session.nodes} WHERE kind <> $1", SET)
    return sorted((_folder(row) for row in found), key=lambda each: each.path)


async def folder(session: FoldersSession, path: str) -> Folder:
    """One folder."""
    return (await stored_folder(session, path)).folder


async def stored_folder(session: FoldersSession, path: str, *, lock: bool = False) -> StoredFolder:
    """One folder where it is stored. lock: nobody else changes it until the transaction ends.

    Raises:
        ConditionsRefused: there is none.
    """
    see_path(path)
    if lock:
        # By itself: what is read with the lock is of the moment before it was granted.
        await session.fetch(f"SELECT id FROM {session.nodes} WHERE path = $1 FOR UPDATE", path)
    found = await session.fetch(
        f"SELECT {', '.join(f'n.{name}' for name in NODE)}, l.length_class, l.longest FROM {session.nodes} n"
        f" LEFT JOIN {session.lengths} l ON l.folder = n.id WHERE n.path = $1 AND n.kind <> $2",
        *(path, SET),
    )
    if not found:
        raise unknown("path", f"folder {path}")
    lengths = {row[-2]: row[-1] for row in found if row[-2] is not None}
    return StoredFolder(
        id=int(found[0][0]), folder=_folder(found[0]), token=found[0][NODE.index("token")], lengths=lengths
    )


async def remove(session: FoldersSession, path: str, tables: FolderTables | None) -> None:
    """Remove a set, or a folder with its tables, which are those given."""
    if tables is None:
        inside = await session.fetch(f"SELECT path FROM {session.nodes}")
        check_empty(path, (each for (each,) in inside))
        await session.run(f"DELETE FROM {session.nodes} WHERE path = $1", path)
        return
    (id_,) = (await session.fetch(f"SELECT id FROM {session.nodes} WHERE path = $1 FOR UPDATE", path))[0]
    for table in (session.channels, session.lengths, session.positions, session.tags):
        await session.run(f"DELETE FROM {table} WHERE folder = $1", id_)
    await session.run(f"DELETE FROM {session.nodes} WHERE id = $1", id_)
    await session.drop_folder(tables)


async def kind_of(session: FoldersSession, path: str) -> str:
    """`SET`, or the kind of a folder.

    Raises:
        ConditionsRefused: nothing has this path.
    """
    see_path(path)
    found = await session.fetch(f"SELECT kind FROM {session.nodes} WHERE path = $1", path)
    if not found:
        raise unknown("path", path)
    return str(found[0][0])


async def add_channels(session: FoldersSession, path: str, channels: Mapping[int, str]) -> None:
    """Add channels to a folder, which is locked for it."""
    there = await stored_folder(session, path, lock=True)
    check_new_channels(channels, await channels_of(session, there.id))
    await _insert_channels(session, there.id, channels)


async def channels_of(session: FoldersSession, id_: int) -> Mapping[int, str]:
    """Names by number, in their order."""
    found = await session.fetch(f"SELECT number, name FROM {session.channels} WHERE folder = $1", id_)
    return dict(sorted((number, name) for number, name in found))


async def add_tag(session: FoldersSession, path: str, name: str) -> Sequence[FolderTag]:
    """Name the versions that folders have now; each of them is locked, in the order of their paths."""
    check_tag_name(name)
    is_set = await kind_of(session, path) == SET
    within = [each for each in await folders(session) if each.path == path or (is_set and is_below(each.path, path))]
    multi = [each.path for each in within if each.kind is FolderKind.MULTI]
    if not multi:
        raise no_versions(path)
    now_ns = time.time_ns()
    made = []
    for each in multi:
        there = await stored_folder(session, each, lock=True)
        if name in {tag.name for tag in await tags(session, there)}:
            raise exists("tag", f"tag {name} of {each}")
        version = there.folder.version
        made.append(FolderTag(path=each, name=name, version=version, created_ns=now_ns))
        columns = ("folder", "name", "version", "created_ns")
        await session.insert_rows("tags", columns, [(there.id, name, version, now_ns)])
    return made


async def tags(session: FoldersSession, of: StoredFolder) -> Sequence[FolderTag]:
    """Tags of a folder, by name."""
    found = await session.fetch(f"SELECT name, version, created_ns FROM {session.tags} WHERE folder = $1", of.id)
    made = (FolderTag(path=of.folder.path, name=name, version=version, created_ns=ns) for name, version, ns in found)
    return sorted(made, key=lambda each: each.name)


async def version_of(session: FoldersSession, of: StoredFolder, tag: str | None) -> int | None:
    """The version that a tag names; None is the newest.

    Raises:
        ConditionsRefused: there is no such tag.
    """
    if tag is None:
        return None
    # Compared here: not every database takes every text.
    for each in await tags(session, of):
        if each.name == tag:
            return each.version
    raise unknown("tag", f"tag {tag!r} of {of.folder.path}")


async def remove_tag(session: FoldersSession, path: str, name: str) -> None:
    """Remove a tag."""
    there = await stored_folder(session, path, lock=True)
    await version_of(session, there, name)
    await session.run(f"DELETE FROM {session.tags} WHERE folder = $1 AND name = $2", there.id, name)


async def _see_free(session: FoldersSession, path: str) -> None:
    """See that nothing has a path, and that what is above it are sets."""
    wanted = [*sets_above(path), path]
    text = f"SELECT path, kind FROM {session.nodes} WHERE path IN ({placeholders(len(wanted))})"
    for there, kind in await session.fetch(text, *wanted):
        if there == path:
            raise exists("path", path)
        if kind != SET:
            raise is_no_set(there)


async def _add_sets_above(session: FoldersSession, path: str) -> None:
    known = {each.path for each in await sets(session)}
    for each in sets_above(path):
        if each not in known:
            await _insert_set(session, each, "")


async def _insert_set(session: FoldersSession, path: str, description: str) -> FolderSet:
    made = FolderSet(path=path, description=description, created_ns=time.time_ns())
    await session.insert(
        "nodes",
        **dict.fromkeys(("layout", "token", "columns"), ""),
        path=path,
        kind=SET,
        description=description,
        version=0,
        created_ns=made.created_ns,
    )
    return made


async def _insert_node(session: FoldersSession, made: Folder, token: str) -> int:
    id_ = await session.insert(
        "nodes",
        path=made.path,
        kind=made.kind.value,
        layout=made.layout.value,
        token=token,
        columns=json.dumps([asdict(column) for column in made.columns]),
        description=made.description,
        version=0,
        created_ns=made.created_ns,
    )
    assert id_ is not None
    return id_


async def _insert_channels(session: FoldersSession, folder_id: int, channels: Mapping[int, str]) -> None:
    if channels:
        rows = [(folder_id, number, name) for number, name in channels.items()]
        await session.insert_rows("channels", ("folder", "number", "name"), rows)


def _folder(row: Sequence[Any]) -> Folder:
    of = dict(zip(NODE, row, strict=False))
    return Folder(
        path=of["path"],
        kind=FolderKind(of["kind"]),
        layout=FolderLayout(of["layout"]),
        columns=tuple(Column(**column) for column in json.loads(of["columns"])),
        description=of["description"],
        version=int(of["version"]),
        created_ns=int(of["created_ns"]),
    )
