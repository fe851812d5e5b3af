"""daemon.tools.backup: what is refused before anything is changed, and what is copied in which order."""

import gzip
import io
import os
import re
import signal
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import BaseModel

from backends.backup import SchemaChanged, ToolMissing, running
from backends.base import StoreError
from backends.mysql import backup_tools as mysql_tools
from backends.postgresql.server import backup as postgresql
from daemon.core.configuration import load_config
from daemon.core.outcome import CommandFailed
from daemon.core.outside.disk import SECTOR
from daemon.core.process.state_folder import RESTORING, only_one
from daemon.tools.backup import command
from daemon.tools.backup.archive import PART_BYTES, BackupReader, BackupWriter, Manifest
from daemon.tools.console import ProgressBar, make_console
from schemas.checking.dsn import without_password
from schemas.config import Config, DatabaseConfig, parse_config
from schemas.config.section import Section
from tests.support.processes import GROUP, here, triggerlog, until
from tests.support.unreadable_disk import small_disk, unreadable_disk

MANIFEST = Manifest(
    triggerlog="0.1.0",
    made="2026-11-28T00:00:00+00:00",
    logger="triggerlog",
    backend="postgresql",
    server="PostgreSQL 18.4",
    schemas={"database": "triggerlog"},
    dumps={"d": ["triggerlog"]},
)


def configured(dsn: str) -> str:
    return f'{GROUP}[database]\ndsn = "{dsn}"\n'


ROOT = Path(__file__).parents[3]
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
"""Nobody listens there: who asks it fails otherwise than these tests want."""


def written(path: Path, manifest: Manifest = MANIFEST, dump: bytes = b"rows" * 999) -> bytes:
    with path.open("wb") as file:
        writer = BackupWriter(file, manifest, "logger = 'triggerlog'\n")
        writer.add("state/dead-letters/bpm/id", b"1 2\n")
        writer.add_dump("d", [dump], lambda _: None)
        writer.close()
    return path.read_bytes()


def read(path: Path) -> tuple[bytes, dict[str, bytes]]:
    with path.open("rb") as file:
        found = BackupReader(path, file, lambda _: None)
        files = {str(name): content.read() for name, _, content in found.state_files()}
        return b"".join(found.dump("d", lambda _: None)), files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "beam.toml"
    path.write_text(configured(NOWHERE))
    return path


@pytest.mark.parametrize("nbytes", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 7])
def test_a_backup_gives_back_what_was_written(tmp_path: Path, nbytes: int) -> None:
    dump = os.urandom(nbytes)
    written(tmp_path / "b", dump=dump)
    assert read(tmp_path / "b") == (dump, {"dead-letters/bpm/id": b"1 2\n"})


def test_a_backup_that_is_damaged_anywhere_is_refused(tmp_path: Path) -> None:
    whole = written(tmp_path / "b")
    with tarfile.open(tmp_path / "b") as tar:
        members = [(each.offset_data + at, each.name) for each in tar for at in (0, each.size // 2, each.size - 1)]
        heads = [each.offset for each in tar]
    for at in [*(at for at, _ in members), *heads]:
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        (tmp_path / "b").write_bytes(damaged)
        with pytest.raises(CommandFailed, match="backup"):
            read(tmp_path / "b")


def test_a_backup_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    whole = written(tmp_path / "b")
    with tarfile.open(tmp_path / "b") as tar:
        end = tar.getmembers()[-1].offset_data
    for length in [*range(0, end, 511), end + 1]:
        (tmp_path / "b").write_bytes(whole[:length])
        with pytest.raises(CommandFailed, match="backup"):
            read(tmp_path / "b")


@pytest.mark.parametrize("name", ["state/../../evil", "/etc/evil", "state", "more/of/it", "database/x"])
def test_a_backup_with_what_does_not_belong_there_is_refused(tmp_path: Path, name: str) -> None:
    with (tmp_path / "b").open("wb") as file:
        writer = BackupWriter(file, MANIFEST, "")
        writer.add(name, b"evil")
        writer.close()
    with pytest.raises(CommandFailed, match="does not belong"):
        read(tmp_path / "b")


def test_a_link_in_a_backup_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "b").open("wb") as file:
        writer = BackupWriter(file, MANIFEST, "")
        link = tarfile.TarInfo("state/journal")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        writer._tar.addfile(link)
        writer.close()
    with pytest.raises(CommandFailed, match="does not belong"):
        read(tmp_path / "b")


def test_a_part_that_unpacks_to_more_than_a_part_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "b").open("wb") as file:
        writer = BackupWriter(file, MANIFEST, "")
        writer.add("database/d/000001.gz", gzip.compress(bytes(4 * PART_BYTES)))
        writer.close()
    with pytest.raises(CommandFailed, match="not as triggerlog writes it"):
        read(tmp_path / "b")


@pytest.mark.parametrize(
    ("field", "value"), [("name", "./"), ("name", ""), ("type", tarfile.SYMTYPE), ("mode", -1), ("mtime", -1)]
)
def test_no_head_in_a_backup_is_a_defect_of_the_reader(tmp_path: Path, field: str, value: object) -> None:
    written(tmp_path / "b")
    with tarfile.open(tmp_path / "b") as tar:
        members = tar.getmembers()
    for member in members:
        setattr(member, field, value)
        head = member.tobuf(tarfile.GNU_FORMAT)
        whole = bytearray(written(tmp_path / "b"))
        whole[member.offset_data - len(head) : member.offset_data] = head
        (tmp_path / "b").write_bytes(whole)
        if field in ("mode", "mtime"):  # no checksum is of these, and nothing but the rights of a file comes of them
            assert read(tmp_path / "b")[0]
        else:
            with pytest.raises(CommandFailed, match="backup"):
                read(tmp_path / "b")


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"backend": "mysql"}, "database.dsn: the backup is of mysql, this is postgresql; name a server of mysql"),
        ({"logger": "other"}, "logger: the backup is of 'other', this is 'triggerlog'; set `logger` to that"),
        ({"dumps": {"d": ["public"]}}, "BACKUP: its dumps are not of its schemas; take another one"),
        (
            {"schemas": {"visits": "sky"}, "dumps": {"d": ["sky"]}},
            "visits.schema: it is 'sky' in the backup, and 'dia' here; set it to that",
        ),
        ({"version": 2}, "in format 2; this one reads format 1: use that version"),
    ],
)
def test_a_backup_of_something_else_is_refused(
    tmp_path: Path, file: Path, change: dict[str, object], refusal: str
) -> None:
    written(tmp_path / "b", MANIFEST.model_copy(update=change))
    done = triggerlog("restore", str(file), str(tmp_path / "b"))
    assert done.returncode == 1
    assert refusal.replace("'dia'", repr(parse_config(GROUP).schemas["visits"])) in done.stderr
    assert not (tmp_path / "state").exists()


def test_another_file_is_refused_and_nothing_is_made(tmp_path: Path, file: Path) -> None:
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("readme"), io.BytesIO())
    (tmp_path / "text").write_text("no backup")
    for name, said in (("other.tar", "is no backup of triggerlog"), ("text", "is no whole backup"), ("none", "none")):
        done = triggerlog("restore", str(file), str(tmp_path / name))
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert said in done.stderr
    assert not (tmp_path / "state").exists()


def test_a_backup_is_not_overwritten(tmp_path: Path, file: Path) -> None:
    (tmp_path / "b").write_text("precious")
    done = triggerlog("backup", str(file), str(tmp_path / "b"))
    assert (done.returncode, done.stderr) == (
        1,
        f"triggerlog: BACKUP: {tmp_path / 'b'} exists; give another name, or --force\n",
    )
    failed = triggerlog("backup", str(file), str(tmp_path / "b"), "--force")
    assert failed.returncode == 1
    assert (tmp_path / "b").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "beam.toml"]


def test_no_daemon_starts_on_a_restore_that_was_interrupted(tmp_path: Path, file: Path) -> None:
    (tmp_path / "state" / RESTORING).mkdir(parents=True)
    written(tmp_path / "b")
    for arguments in (("run", str(file)), ("restore", str(file), str(tmp_path / "b"))):
        done = triggerlog(*arguments)
        assert done.returncode == 1
        assert "was interrupted, and the database is not whole; drop what it made there" in done.stderr


class Tools:
    """A database that does something while it is dumped."""

    at_one_moment = True
    description = "a database"

    def __init__(self, meanwhile: Iterable[object] = ()) -> None:
        self._meanwhile = meanwhile

    def filled(self, schemas: Sequence[str]) -> list[str]:
        return list(schemas)[:1]

    def nbytes(self, schemas: Sequence[str]) -> int:
        return 0

    def dumps(self, schemas: Sequence[str]) -> Mapping[str, Sequence[str]]:
        return {"d": schemas}

    def dump(self, schemas: Sequence[str]) -> Iterator[bytes]:
        list(self._meanwhile)
        yield b"rows"

    def restore(self, schemas: Sequence[str], blocks: Iterable[bytes]) -> None:
        raise AssertionError

    def drop(self, schemas: Sequence[str]) -> None:
        raise AssertionError

    def removal(self, schemas: Sequence[str]) -> str:
        raise AssertionError


def backed_up(file: Path, output: Path, tools: Tools) -> dict[str, bytes]:
    with output.open("wb") as opened, ProgressBar(make_console(stderr=True), "") as bar:
        command._write(load_config(file), tools, opened, bar)
    return read(output)[1]


def test_a_configuration_in_its_state_folder_is_neither_copied_nor_in_the_way(tmp_path: Path) -> None:
    file = tmp_path / "state/beam.toml"
    file.parent.mkdir()
    file.write_text(f'state_dir = "."\n{configured(NOWHERE)}')
    token, other = file.with_name("api-token"), file.with_name("other.toml")
    token.write_text("token")
    assert backed_up(file, tmp_path / "b", Tools()) == {"api-token": b"token"}
    token.unlink()
    other.touch()
    with pytest.raises(CommandFailed, match=r"state has `other\.toml` already"):
        command._check_empty(load_config(file))
    other.unlink()
    command._check_empty(load_config(file))


def test_what_its_disk_cannot_read_is_reported_and_the_rest_is_copied(
    tmp_path: Path, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with unreadable_disk(tmp_path) as disk:
        file.write_text(f'state_dir = "{disk.mount}/state"\n{file.read_text()}')
        (disk.mount / "state/journal/bpm").mkdir(parents=True)
        token, segment = disk.mount / "state/api-token", disk.mount / "state/journal/bpm/1.journal"
        token.write_bytes(b"token")
        segment.write_bytes(b"x" * 3 * SECTOR)
        disk.damage(segment, SECTOR)
        copied = {"api-token": b"token", "journal/bpm/1.journal": b"x" * SECTOR + bytes(SECTOR) + b"x" * SECTOR}
        assert backed_up(file, tmp_path / "b", Tools()) == copied
        assert f"{segment} cannot be read (input/output error) at byte {SECTOR}" in caplog.text


def test_a_disk_that_is_full_is_named(tmp_path: Path, file: Path) -> None:
    with small_disk(tmp_path, 64) as mount, ProgressBar(make_console(stderr=True), "") as bar:
        (tmp_path / "state").mkdir()
        (tmp_path / "state/api-token").write_bytes(os.urandom(1 << 17))
        with pytest.raises(OSError, match=re.escape(f"No space left on device: '{mount / 'b'}'")):
            command._written(load_config(file), Tools(), mount / "b", bar)


def test_a_restore_that_cannot_remove_what_it_made_says_both(tmp_path: Path, file: Path) -> None:
    """A server that ended in the middle: it refuses the dump, and refuses to drop it."""

    class Gone(Tools):
        def restore(self, schemas: Sequence[str], blocks: Iterable[bytes]) -> None:
            raise StoreError("no space left on device")

        def drop(self, schemas: Sequence[str]) -> None:
            raise StoreError("it is in recovery mode")

    written(tmp_path / "b")
    with (tmp_path / "b").open("rb") as opened:
        found = BackupReader(tmp_path / "b", opened, lambda _: None)
        with pytest.raises(CommandFailed) as failed:
            command._restore(load_config(file), Gone(), found, lambda _: None)
    waiting = tmp_path / "state" / RESTORING
    assert str(failed.value).startswith("no space left on device; what it made cannot be removed (it is in recovery")
    assert str(failed.value).endswith(f"remove {waiting}, and restore again")
    assert waiting.exists()


def test_what_moves_on_while_it_is_copied_is_in_one_of_the_copies(tmp_path: Path, file: Path) -> None:
    """From the journal into the dead letters, while the database is copied; what is left out is not there."""
    state = tmp_path / "state"
    segment, letters = state / "journal/bpm/1.journal", state / "dead-letters/bpm/1.dead"
    for path in (segment, letters, state / "intake/bpm/1.received", state / "api-token", state / "visits/1.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(path.name.encode())
    left_out = [
        state / name for name in ("lock", "journal/bpm/lock", "postgresql.users", "visits/process.log", "taking")
    ]
    left_out += [state / "postgresql/base", state / "postgresql.before/base", state / "heat.json.partial"]
    for path in left_out:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def moved() -> Iterator[object]:
        yield letters.write_bytes(segment.read_bytes())
        yield segment.unlink()

    found = backed_up(file, tmp_path / "b", Tools(moved()))
    assert found == {
        "journal/bpm/1.journal": b"1.journal",
        "dead-letters/bpm/1.dead": b"1.journal",
        "intake/bpm/1.received": b"1.received",
        "api-token": b"api-token",
        "visits/1.json": b"1.json",
    }


@pytest.mark.parametrize("happens", [lambda path: path.unlink(), lambda path: path.write_text("1")])
def test_letters_that_are_retried_meanwhile_begin_it_again(
    tmp_path: Path, file: Path, happens: Callable[[Path], object]
) -> None:
    letters = tmp_path / "state/dead-letters/bpm/1.dead"
    letters.parent.mkdir(parents=True)
    letters.write_text("12")
    with pytest.raises(SchemaChanged, match="were retried or discarded"):
        backed_up(file, tmp_path / "b", Tools(happens(letters) for _ in "1"))


def test_every_section_that_names_a_schema_is_in_the_list() -> None:
    """A section that is added later, too: the key `schema` is all that counts."""
    sections = {
        name
        for name, field in Config.model_fields.items()
        if isinstance(field.annotation, type)
        and issubclass(field.annotation, BaseModel)
        and any(key.alias == "schema" for key in field.annotation.model_fields.values())
    }
    assert sections == set(parse_config(GROUP).schemas) >= {"database", "visits", "conditions", "folders"}
    assert issubclass(Config.model_fields["folders"].annotation, Section)


# --- the tools --------------------------------------------------------------------------------------------------------

SECRET = 'p"w\\d#1'


def fake(folder: Path, name: str, answer: str = "10.11.0-MariaDB") -> None:
    """A program that notes its arguments, and the file that they name."""
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(folder / 'noted')!r}, 'a').write(' '.join(sys.argv) + '\\n')\n"
        "sys.stdin.read()\nfor each in sys.argv:\n    if '-file=' in each:\n"
        f"        open({str(folder / 'login')!r}, 'w').write(open(each.partition('=')[2]).read())\nprint({answer!r})\n"
    )
    path.chmod(0o755)


def test_a_password_of_mariadb_is_in_a_file_of_its_user_and_on_no_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mariadb", "mariadb-dump"):
        fake(tmp_path, name)
    monkeypatch.setenv("PATH", str(tmp_path))
    database = DatabaseConfig(dsn="mysql://logger@db:3307")
    with mysql_tools(database, SECRET, tmp_path, restores=False) as tools:
        assert tools.description == "MariaDB 10.11.0-MariaDB"
        (login,) = {Path(word.partition("=")[2]) for word in (tmp_path / "noted").read_text().split() if ".cnf" in word}
        assert stat.S_IMODE(login.stat().st_mode) == 0o600
    assert not login.exists()
    assert 'password="p\\"w\\\\d#1"\n' in (tmp_path / "login").read_text()
    assert "d#1" not in (tmp_path / "noted").read_text()


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("postgresql://a:s%2Ft@h:5433/b?sslmode=require", ("postgresql://a@h:5433/b?sslmode=require", "s/t")),
        ("postgresql://a@/b?host=/run/x&password=s%20t", ("postgresql://a@/b?host=%2Frun%2Fx", "s t")),
        ("postgresql://h/b", ("postgresql://h/b", None)),
    ],
)
def test_a_password_is_taken_out_of_a_dsn(dsn: str, expected: tuple[str, str | None]) -> None:
    assert without_password(dsn) == expected


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("mysql://logger@127.0.0.1:1", "mariadb or mysql is not on this machine; install mariadb-client"),
        ("mongodb://127.0.0.1:1", "mongodump is not on this machine; install mongodb-database-tools"),
    ],
)
def test_a_tool_that_is_missing_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dsn: str, said: str
) -> None:
    (tmp_path / "beam.toml").write_text(configured(dsn))
    done = triggerlog("backup", str(tmp_path / "beam.toml"), str(tmp_path / "b"), PATH=str(tmp_path))
    assert (done.returncode, done.stderr.startswith(f"triggerlog: {said}")) == (1, True), done.stderr


def test_a_server_that_is_newer_than_the_tools_is_refused_with_the_package(
    monkeypatch: pytest.MonkeyPatch, postgresql_dsn: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(postgresql, "_version_of", lambda _: 17)
        with pytest.raises(
            ToolMissing, match=r"the server is PostgreSQL 18, .* is of 17, .* install postgresql-client-18"
        ):
            postgresql.PostgresqlTools(postgresql_dsn, None)


def test_a_restore_that_is_killed_commits_nothing(postgresql_dsn: str) -> None:
    """At the end of its input psql would commit what it was given in a single transaction."""
    schema = f"killed_{uuid4().hex}"
    text = f"""
import os, sys
from backends.postgresql.server import backup

def killed(_):
    yield b'CREATE TABLE {schema}.half (x int);\\n' + b'-- more than a buffer\\n' * 100_000
    os.kill(os.getpid(), 9)

backup._for_any_server = killed
backup.PostgresqlTools(sys.argv[1], None).restore(['{schema}'], [])
"""
    done = subprocess.run([sys.executable, "-c", text, postgresql_dsn], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    tools = postgresql.PostgresqlTools(postgresql_dsn, None)
    at_work = f"SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%{schema}%' AND pid <> pg_backend_pid()"
    until(lambda: tools._ask(at_work) == "0", "psql has ended")
    assert tools._ask(f"SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'") == "0"


def test_a_server_that_refuses_is_one_line(tmp_path: Path, file: Path) -> None:
    done = triggerlog("backup", str(file), str(tmp_path / "b"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Connection refused" in done.stderr
    assert not (tmp_path / "b").exists()


def test_a_program_that_fails_says_why() -> None:
    with (
        pytest.raises(StoreError, match=r"^sh: ERROR 1049: Unknown database$"),
        running(["/bin/sh", "-c", "echo warning >&2; echo 'ERROR 1049: Unknown database' >&2; exit 3"]),
    ):
        pass


def test_only_one_may_use_a_folder_that_is_restored(tmp_path: Path, file: Path) -> None:
    written(tmp_path / "b")
    with only_one(tmp_path / "state"):
        done = triggerlog("restore", str(file), str(tmp_path / "b"))
    assert (done.returncode, "another daemon uses" in done.stderr) == (1, True)
    assert here("check-config", str(file)).returncode == 0


def test_a_daemon_with_mongodb_has_to_be_stopped(tmp_path: Path, mongodb_dsn: str) -> None:
    fake(tmp_path, "mongodump")
    file = tmp_path / "beam.toml"
    file.write_text(configured(mongodb_dsn))
    with only_one(tmp_path / "state"):
        done = triggerlog("backup", str(file), str(tmp_path / "b"), PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (
        1,
        f"triggerlog: state_dir: a daemon uses {tmp_path / 'state'}, and the tools of MongoDB copy no database while it"
        " is written; stop it, and all that writes there\n",
    )
    done = triggerlog("backup", str(file), str(tmp_path / "b"), PATH=str(tmp_path))
    assert "start the daemon, which makes them" in done.stderr
