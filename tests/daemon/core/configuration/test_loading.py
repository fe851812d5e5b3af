"""daemon.core.configuration.loading: the file, the paths relative to it, and the password's place."""

import os
import stat
from pathlib import Path

import pytest

from daemon.core.configuration import LoadedConfig, load_config, warnings
from schemas.config import ConfigError

GROUP = '[[groups]]\nname = "bpm"\ncount = 3\nchannels = [{ name = "x" }]\n'
DSN = "postgresql://logger@db.example.org:5432/beam"


def load(folder: Path, text: str, environment: dict[str, str] | None = None) -> LoadedConfig:
    file = folder / "beam.toml"
    file.write_text(text)
    return load_config(file, environment or {})


def said(folder: Path, text: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        load(folder, text, environment)
    return str(refused.value)


def test_paths_start_at_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load(tmp_path, GROUP).state_dir == tmp_path.resolve() / "state"
    assert load(tmp_path, 'state_dir = "/srv/beam"\n' + GROUP).state_dir == Path("/srv/beam")


def test_a_state_folder_that_can_be_none_is_refused_by_its_field(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    assert said(tmp_path, 'state_dir = "file"\n' + GROUP) == f"state_dir: {tmp_path}/file is no folder; name a folder"
    for path, reason in (("file/in", "not a directory"), ("circle", "too many levels"), ("a" * 300, "file name too")):
        told = said(tmp_path, f'state_dir = "{path}"\n' + GROUP)
        assert told.startswith(f"state_dir: {tmp_path}/{path} cannot be used ({reason}")
        assert told.endswith("; name another folder")


def test_without_a_database_it_is_the_embedded_one(tmp_path: Path) -> None:
    loaded = load(tmp_path, GROUP)
    assert loaded.password is None
    assert loaded.target == f"embedded PostgreSQL under {loaded.state_dir}"


def test_the_password_comes_from_the_environment(tmp_path: Path) -> None:
    text = f'{GROUP}[database]\ndsn = "{DSN}"\npassword_env = "BEAM"\n'
    assert load(tmp_path, text, {"BEAM": "p@ss/w:rd %"}).password == "p@ss/w:rd %"


def test_the_password_comes_from_the_first_line_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("pass word\r\nnot this\n")
    loaded = load(tmp_path, f'{GROUP}[database]\ndsn = "{DSN}"\npassword_file = "secret"\n')
    assert loaded.password == "pass word"


def test_readers_have_a_password_of_their_own(tmp_path: Path) -> None:
    readers = f'{GROUP}[database]\ndsn = "{DSN}"\n[readers]\ndsn = "{DSN}"\n'
    loaded = load(tmp_path, readers + 'password_env = "READER"\n', {"READER": "s3cret"})
    assert (loaded.password, loaded.readers_password) == (None, "s3cret")
    assert "s3cret" not in repr(loaded)
    assert said(tmp_path, readers + 'password_file = "none"\n').startswith("readers.password_file: ")
    inside = warnings(load(tmp_path, readers.replace("postgresql://logger@", "postgresql://logger:s3cret@")))
    assert [each.field for each in inside if "holds a password" in each.problem] == ["database.dsn", "readers.dsn"]


def test_a_password_is_shown_nowhere(tmp_path: Path) -> None:
    text = f'{GROUP}[database]\ndsn = "{DSN}?sslmode=require"\npassword_env = "BEAM"\n'
    loaded = load(tmp_path, text, {"BEAM": "s3cret"})
    assert loaded.password == "s3cret"
    assert "s3cret" not in loaded.target
    assert "s3cret" not in repr(loaded)


def test_a_variable_that_is_not_set_is_told_without_its_value(tmp_path: Path) -> None:
    # Someone may write the password itself where its variable's name belongs.
    text = f'{GROUP}[database]\ndsn = "{DSN}"\npassword_env = "s3cret"\n'
    assert said(tmp_path, text) == (
        "database.password_env: the environment variable it names is not set; set it, or use `password_file`"
    )


def test_a_password_file_that_is_not_there_or_empty_is_told(tmp_path: Path) -> None:
    text = f'{GROUP}[database]\ndsn = "{DSN}"\npassword_file = "secret"\n'
    assert said(tmp_path, text) == (
        f"database.password_file: {tmp_path}/secret cannot be read (no such file or directory); give a file that the "
        "daemon may read, with the password in its first line"
    )
    (tmp_path / "secret").write_text("\n")
    assert "the first line of" in said(tmp_path, text)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read \(no such file or directory\); give the path"):
        load_config(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match=r"cannot be read \(is a directory\)"):
        load_config(tmp_path, {})
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load_config(binary, {})


def test_a_mark_of_the_byte_order_is_no_part_of_it(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_bytes(b"\xef\xbb\xbf" + GROUP.encode())
    assert load_config(file, {}).config.groups[0].name == "bpm"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_told(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(GROUP)
    file.chmod(stat.S_IWUSR)
    with pytest.raises(ConfigError, match="permission denied"):
        load_config(file, {})


@pytest.mark.parametrize("dsn", ["postgresql://logger:s3cret@host/db", "postgresql://logger@host/db?password=s3cret"])
def test_a_password_inside_the_dsn_works_and_is_warned_of(tmp_path: Path, dsn: str) -> None:
    loaded = load(tmp_path, f'{GROUP}[database]\ndsn = "{dsn}"\n')
    assert loaded.config.database.dsn == dsn
    assert "s3cret" not in loaded.target
    assert [str(warning) for warning in warnings(loaded)] == [
        "database.dsn: holds a password that every reader of this file sees; move it out, into `password_env` or "
        "`password_file`",
        "database.dsn: leads to another machine, and whoever is between can read and change what travels; let TLS "
        "check the server: sslmode=verify-full&sslrootcert=/path/of/ca.crt",
    ]


@pytest.mark.parametrize(
    ("dsn", "is_warned"),
    [
        ("postgresql://logger@db/beam?sslmode=require", True),  # encrypted, and nobody knows with whom
        ("postgresql://logger@db/beam?sslmode=verify-full", False),
        ("postgresql://logger@127.0.0.1:5433/beam", False),
        ("postgresql://logger@/beam?host=/run/postgresql", False),
        ("postgresql://logger@/beam?host=db", True),
        ("mysql://logger@db", True),
        ("mysql://logger@db?ssl=true", False),
        ("mysql://logger@localhost?unix_socket=/run/mysqld.sock", False),
        ("mongodb://logger@a:27017,b:27017/?replicaSet=r", True),
        ("mongodb://logger@a:27017,b:27017/?replicaSet=r&tls=true", False),
        ("mongodb://logger@a/?tls=true&tlsAllowInvalidCertificates=true", True),
        ("mongodb://[::1]:27017", False),
    ],
)
def test_a_way_to_the_database_that_others_can_read_is_warned_of(tmp_path: Path, dsn: str, is_warned: bool) -> None:
    found = [str(warning) for warning in warnings(load(tmp_path, f'{GROUP}[database]\ndsn = "{dsn}"\n'))]
    assert any("leads to another machine" in warning for warning in found) is is_warned


def test_files_that_the_dsn_names_have_to_be_there(tmp_path: Path) -> None:
    for dsn, option in ((f"{DSN}?sslrootcert=", "sslrootcert"), ("mysql://a@b?ssl_ca=", "ssl_ca")):
        text = f'{GROUP}[database]\ndsn = "{dsn}'
        assert said(tmp_path, f'{text}/none.crt"\n') == (
            f"database.dsn: /none.crt of `{option}` cannot be read (no such file or directory); give a file that the "
            "daemon may read"
        )
        assert "write the whole path" in said(tmp_path, f'{text}ca.crt"\n')


def test_addresses_that_others_reach_are_warned_of(tmp_path: Path) -> None:
    doors = '[api]\nhost = "0.0.0.0"\ntoken_file = "token"\n[dashboard]\nhost = "::1"\n'
    text = f'{GROUP}{doors}[[sources]]\nkind = "tcp"\nhost = "10.0.0.5"\n'
    found = warnings(load(tmp_path, text))
    assert [warning.field for warning in found] == ["api.host", "sources[0].host"]
    assert str(found[0]) == (
        "api.host: 0.0.0.0 is reachable from other machines, and without TLS whoever is between can read the token; "
        "give `tls_certificate` and `tls_key` (docs/security.md)"
    )
    assert warnings(load(tmp_path, GROUP)) == []


def test_the_password_may_be_a_credential_that_systemd_hands_over(tmp_path: Path) -> None:
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials/triggerlog.password").write_text("secret\n")
    text = f'{GROUP}[database]\ndsn = "{DSN}"\npassword_file = "credential:triggerlog.password"\n'
    loaded = load(tmp_path, text, {"CREDENTIALS_DIRECTORY": str(tmp_path / "credentials")})
    assert loaded.password == "secret"
    assert loaded.resolve("credential:triggerlog.tls-key") == tmp_path / "credentials/triggerlog.tls-key"
    missing = said(tmp_path, text.replace("triggerlog.password", "other"), {})
    assert missing.startswith("database.password_file: /etc/credstore/other cannot be read (no such file or directory)")


@pytest.mark.parametrize(
    ("doors", "what"),
    [
        (
            '[api]\nhost = "0.0.0.0"\n',
            "api.host: 0.0.0.0 is reachable from other machines, and everybody who reaches it could read; name its "
            "token in `token_file` or `token_env`, or listen on 127.0.0.1",
        ),
        (
            '[dashboard]\nhost = "node-1"\n',
            "dashboard.host: node-1 is reachable from other machines, and everybody who",
        ),
        ('[api]\ntoken_file = "a"\ntoken_env = "B"\n', "api.token_file: `token_env` is given too; give one of them"),
        (
            '[api]\ntls_key = "a"\n',
            "api.tls_certificate: `tls_key` is given without it; give both, or remove `tls_key`",
        ),
        ('[dashboard]\ntls_certificate = "a"\n', "dashboard.tls_key: `tls_certificate` is given without it; give both"),
    ],
)
def test_a_listener_without_what_it_needs_is_refused(tmp_path: Path, doors: str, what: str) -> None:
    assert said(tmp_path, GROUP + doors).startswith(what)


def test_who_only_asks_the_daemon_need_not_know_the_password_of_the_database(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(f'{GROUP}[database]\ndsn = "{DSN}"\npassword_file = "secret"\n')
    assert load_config(file, {}, asks_database=False).password is None
