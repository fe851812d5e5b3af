"""`triggerlog backup` and `triggerlog restore`."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Any, TypeVar

import typer

from backends.backup import DatabaseTools, SchemaChanged
from backends.base import StoreError
from backends.files import whole_file
from backends.kinds import KINDS
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.outcome import CommandFailed, examples, names_file, reasons_of
from daemon.core.process.state_folder import StateFolderInUse, only_one, removal_of_half
from daemon.tools.backup import state_folder
from daemon.tools.backup.archive import STATE, BackupReader, BackupWriter, Manifest
from daemon.tools.console import ProgressBar, make_console
from daemon.tools.options import File
from schemas.checking.problems import listed, without_passwords

EPILOG = examples("triggerlog backup beam.toml beam.backup", "triggerlog restore beam.toml beam.backup")
ATTEMPTS = 5

Name = TypeVar("Name", str, PurePosixPath)
Content = TypeVar("Content")

BackupFile = Annotated[Path, typer.Argument(metavar="BACKUP", help="The file of the backup.", show_default=False)]


def backup(
    file: File,
    output: BackupFile,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Copy the database and the state folder into one file; the daemon may run.

    All schemas are in it, as they were at one moment, and what was acknowledged when it began; keep it as you keep a
    password, since it holds the token of the API. Accounts and rights of the database are not in it.
    """
    loaded = load_config(file)
    if output.exists() and not force:
        raise CommandFailed(f"BACKUP: {output} exists; give another name, or --force")
    if not output.absolute().parent.is_dir():
        raise CommandFailed(f"BACKUP: there is no folder {output.absolute().parent}")
    if loaded.state_dir in output.absolute().parents:
        raise CommandFailed(f"BACKUP: {output} is in the state folder, which is copied; give another place")
    began = time.monotonic()
    with _ended_by_signals(), ExitStack() as stack:
        bar = stack.enter_context(ProgressBar(make_console(stderr=True), "asking the database"))
        tools = stack.enter_context(_tools(loaded, restores=False))
        if not tools.at_one_moment:
            stack.enter_context(_without_daemon(loaded))
        part = stack.enter_context(whole_file(output))
        manifest = _written(loaded, tools, part, bar)
    typer.echo(
        f"{output}: {listed(manifest.schemas.values())} of {manifest.server}, and the state folder,"
        f" {output.stat().st_size / 2**20:.1f} MiB in {time.monotonic() - began:.1f} s"
    )


def restore(file: File, backup: BackupFile) -> None:
    """Restore a backup into an empty database and state folder; the daemon must not run.

    Nothing is overwritten: what is there is moved away by you first. The server may be another one, and of another
    version; the login of the configuration owns what is restored.
    """
    loaded = load_config(file)
    began = time.monotonic()
    with (
        _ended_by_signals(),
        _opened(backup) as opened,
        ProgressBar(make_console(stderr=True), "reading the backup") as bar,
    ):
        total = os.fstat(opened.fileno()).st_size
        found = BackupReader(backup, opened, lambda done: bar.show("reading the backup", done=done, total=total))
        _check_meant(loaded, found.manifest)
        _check_owner(loaded)
        with only_one(loaded.state_dir):
            _check_empty(loaded)
            with _tools(loaded, restores=True) as tools:
                schemas = list(dict.fromkeys(found.manifest.schemas.values()))
                _check_unfilled(loaded, tools, schemas)
                _restore(loaded, tools, found, lambda done: bar.show("restoring", done=done, total=total))
    typer.echo(
        f"{backup}: {listed(schemas)} of {found.manifest.server}, of {found.manifest.made}, in"
        f" {time.monotonic() - began:.1f} s; start the daemon, then run `triggerlog reconcile {file}`"
    )


def _tools(loaded: LoadedConfig, *, restores: bool) -> Any:
    database = loaded.config.database
    implementation = KINDS[database.backend].implementation()
    return implementation.backup_tools(database, loaded.password, loaded.state_dir, restores=restores)


def _written(loaded: LoadedConfig, tools: DatabaseTools, part: Path, bar: ProgressBar) -> Manifest:
    for _ in range(ATTEMPTS):
        with names_file(part), open(part, "wb", opener=_private) as file:
            try:
                return _write(loaded, tools, file, bar)
            except SchemaChanged as error:
                reason = error
    raise CommandFailed(
        f"{reason}, {ATTEMPTS} times; let the daemon finish what it moves, reduces or drops, or stop it, and run this"
        " again"
    )


def _write(loaded: LoadedConfig, tools: DatabaseTools, file: IO[bytes], bar: ProgressBar) -> Manifest:
    state_dir, named = loaded.state_dir, loaded.config.schemas
    filled = tools.filled(list(dict.fromkeys(named.values())))
    if not filled:
        raise CommandFailed(
            f"database: none of {listed(dict.fromkeys(named.values()))} is at {loaded.target}; start the daemon, which"
            " makes them, or correct `dsn`"
        )
    total = tools.nbytes(filled)
    dumps = {name: list(schemas) for name, schemas in tools.dumps(filled).items()}
    manifest = Manifest(
        triggerlog=version("triggerlog"),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        logger=loaded.config.logger,
        backend=loaded.config.database.backend.value,
        server=tools.description,
        schemas={section: schema for section, schema in named.items() if schema in filled},
        dumps=dumps,
    )
    writer = BackupWriter(file, manifest, without_passwords(loaded.path.read_text(encoding="utf-8")))
    before = state_folder.letter_sizes(state_dir)
    bar.show("copying the state folder")
    for name, mode, content in _besides_configuration(loaded, state_folder.before_the_database(state_dir)):
        writer.add(f"{STATE}/{name}", content, mode=mode)
    for name, schemas in dumps.items():

        def progress(done: int, schemas: list[str] = schemas) -> None:
            bar.show(
                f"copying {listed(schemas)}", f"{done / 2**20:,.0f} MiB", done=min(done, total), total=total or None
            )

        writer.add_dump(name, tools.dump(schemas), progress)
    for name, mode, content in state_folder.after_the_database(state_dir):
        writer.add(f"{STATE}/{name}", content, mode=mode)
    after = state_folder.letter_sizes(state_dir)
    if any(after.get(name, 0) < size for name, size in before.items()):
        raise SchemaChanged("dead letters were retried or discarded while they were copied")
    writer.close()
    return manifest


def _restore(loaded: LoadedConfig, tools: DatabaseTools, found: BackupReader, progress: Callable[[int], None]) -> None:
    state_dir = loaded.state_dir
    try:
        state_folder.write(state_dir, _besides_configuration(loaded, found.state_files()))
        for name, schemas in found.manifest.dumps.items():
            tools.restore(schemas, found.dump(name, progress))
    except BaseException as error:
        try:
            tools.drop(list(dict.fromkeys(found.manifest.schemas.values())))
        except StoreError as left:
            # The folder stays, and no daemon starts with half a database.
            raise CommandFailed(
                f"{'; '.join(reasons_of(error))}; what it made cannot be removed ({left}): when that is repaired,"
                f" {removal_of_half(state_dir)}"
            ) from None
        state_folder.discard(state_dir)
        raise
    state_folder.put_in_place(state_dir)


def _private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)  # one that was killed may have left it
    return descriptor


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with names_file(path), path.open("rb") as file:
        if not file.seekable():
            raise CommandFailed(f"BACKUP: {path} is no file that can be read twice; give the path of a file")
        yield file


def _check_meant(loaded: LoadedConfig, manifest: Manifest) -> None:
    """See that it is a backup of this configuration: of what it names so, in a database of the same kind."""
    config = loaded.config
    if manifest.backend != config.database.backend:
        made, wanted = manifest.backend, config.database.backend.value
        raise CommandFailed(f"database.dsn: the backup is of {made}, this is {wanted}; name a server of {made}")
    if manifest.logger != config.logger:
        raise CommandFailed(
            f"logger: the backup is of {manifest.logger!r}, this is {config.logger!r}; set `logger` to that"
        )
    dumped = {schema for schemas in manifest.dumps.values() for schema in schemas}
    if dumped != set(manifest.schemas.values()):
        raise CommandFailed("BACKUP: its dumps are not of its schemas; take another one")
    for section, schema in manifest.schemas.items():
        if (named := config.schemas.get(section)) != schema:
            raise CommandFailed(f"{section}.schema: it is {schema!r} in the backup, and {named!r} here; set it to that")


def _check_owner(loaded: LoadedConfig) -> None:
    state_dir = loaded.state_dir
    embedded = loaded.config.database.dsn is None
    if embedded and os.geteuid() == 0 and state_dir.exists() and state_dir.stat().st_uid != 0:
        raise CommandFailed(
            f"state_dir: {state_dir} belongs to user {state_dir.stat().st_uid}, who could not use an embedded"
            " PostgreSQL that root makes; run this as that user"
        )


def _besides_configuration(
    loaded: LoadedConfig, files: Iterable[tuple[Name, int, Content]]
) -> Iterator[tuple[Name, int, Content]]:
    """Leave out the configuration, where it lies in its state folder: a backup has it without passwords."""
    own = loaded.path.resolve()
    return (each for each in files if (loaded.state_dir / each[0]).resolve() != own)


def _check_empty(loaded: LoadedConfig) -> None:
    state_dir, own = loaded.state_dir, loaded.path.resolve()
    names = [name for name in state_folder.contents(state_dir) if (state_dir / name).resolve() != own]
    if names:
        raise CommandFailed(
            f"state_dir: {state_dir} has {listed(names)} already; move the folder away (`mv {state_dir}"
            f" {state_dir}.before`), or name another one"
        )


def _check_unfilled(loaded: LoadedConfig, tools: DatabaseTools, schemas: list[str]) -> None:
    filled = tools.filled(schemas)
    if not filled:
        return
    if loaded.config.database.dsn is None:
        fix = f"move the folder away (`mv {loaded.state_dir} {loaded.state_dir}.before`), or name another `state_dir`"
    else:
        fix = f"name an empty server or database, or, where they may go, run `{tools.removal(filled)}`"
    raise CommandFailed(f"database: {listed(filled)} at {loaded.target} has tables already; {fix}")


@contextmanager
def _without_daemon(loaded: LoadedConfig) -> Iterator[None]:
    title = next(iter(KINDS[loaded.config.database.backend].products.values())).title
    try:
        with only_one(loaded.state_dir):
            yield
    except StateFolderInUse:
        raise CommandFailed(
            f"state_dir: a daemon uses {loaded.state_dir}, and the tools of {title} copy no database while it is"
            " written; stop it, and all that writes there"
        ) from None


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end it as Ctrl-C does: what is half done is undone."""

    def stop(number: int, _frame: object) -> None:
        raise CommandFailed(f"stopped by {signal.Signals(number).name}; nothing was changed")

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
