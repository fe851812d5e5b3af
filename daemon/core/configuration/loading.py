"""Reads the configuration file and what it refers to: the state folder, and the password's place."""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, urlsplit

from daemon.core.outcome import read_at_most, reason_of
from daemon.web.secrets import from_either
from daemon.web.tls import Identity
from schemas.checking.addresses import is_loopback
from schemas.checking.dsn import files_of, form_of, is_private
from schemas.checking.problems import without_passwords, wrong
from schemas.config import Config, ConfigError, DatabaseConfig, Problem, ReadersConfig, parse_most
from schemas.config.listeners import Listener

T = TypeVar("T")

MOST_BYTES = 4 * 2**20
"""The most bytes of a configuration file: one with 30,000 instruments by name is a tenth of that."""
CREDENTIAL = "credential:"
"""Begins a path that names a credential, which systemd hands to a unit by LoadCredential."""

CREDSTORE = "/etc/credstore"
"""Where systemd has them from, and where an operator who runs a command by hand finds them, too."""

VARIABLE = "TRIGGERLOG_CONFIG"
NAME = "triggerlog.toml"


@dataclass(frozen=True, kw_only=True)
class LoadedConfig:
    """A checked configuration, with what it refers to resolved.

    path: the file, absolute.
    state_dir: absolute; it need not exist yet.
    password: for the DSN, from where the file says it is; None without such a place. Never shown.
    readers_password: for the DSN of the readers, likewise.
    credentials: folder of what the file names as `credential:NAME`.
    """

    config: Config
    path: Path
    state_dir: Path
    password: str | None = field(repr=False)
    credentials: Path
    readers_password: str | None = field(default=None, repr=False)

    @property
    def target(self) -> str:
        """Where the database is, without a password."""
        dsn = self.config.database.dsn
        return f"embedded PostgreSQL under {self.state_dir}" if dsn is None else without_passwords(dsn)

    def resolve(self, path: str) -> Path:
        """Where a path of the file leads: a relative one starts at the file's folder, or it is a credential."""
        return _resolve(self.path.parent, path, self.credentials)


def implied_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the configuration that a command uses where none is named; None where there is none."""
    if environment.get(VARIABLE):
        return Path(environment[VARIABLE])
    return Path(NAME) if Path(NAME).exists() else None


def load_config(path: Path, environment: Mapping[str, str] = os.environ, *, asks_database: bool = True) -> LoadedConfig:
    """Read, check and resolve a configuration file.

    asks_database: whether the database's password is needed; who only asks the daemon may not be able to read it.

    Raises:
        ConfigError: with every problem found, each naming the field and the fix.
    """
    loaded, problems = load_most(path, environment, asks_database=asks_database)
    if loaded is None or problems:
        raise ConfigError(problems)
    return loaded


def load_most(
    path: Path, environment: Mapping[str, str] = os.environ, *, asks_database: bool = True
) -> tuple[LoadedConfig | None, list[Problem]]:
    """Read a configuration file as far as it goes; return what is left without the keys that cannot be used.

    Returns:
        None where that would say nothing, and every problem; `load_config` says more.
    """
    try:
        config, found = parse_most(_text(path, str(path), "", "give the path of a configuration file"))
    except ConfigError as error:
        return None, list(error.problems)
    # A place in the text is one of a file, and perhaps of one that nobody named.
    found = [replace(each, field=f"{path} {each.field}") if each.field.startswith("(line") else each for each in found]
    if config is None:
        return None, found
    if asks_database:
        found += _unusable_files(config)
    folder, credentials = path.absolute().parent, Path(environment.get("CREDENTIALS_DIRECTORY", CREDSTORE))

    def attempt(resolve: Callable[[], T], otherwise: T) -> T:
        try:
            return resolve()
        except ConfigError as error:
            found.extend(error.problems)
            return otherwise

    def password(section: DatabaseConfig | ReadersConfig, name: str) -> str | None:
        return attempt(lambda: _password(section, name, folder, credentials, environment), None)

    loaded = LoadedConfig(
        config=config,
        path=path.absolute(),
        state_dir=attempt(lambda: _state_dir(folder, config), folder / config.state_dir),
        password=password(config.database, "database") if asks_database else None,
        credentials=credentials,
        readers_password=password(config.readers, "readers") if asks_database else None,
    )
    return loaded, found


def identity_of(loaded: LoadedConfig, listener: Listener, field: str) -> Identity | None:
    """The certificate of a listener; None where it has none.

    Raises:
        ConfigError: a file cannot be used.
    """
    if listener.tls_certificate is None or listener.tls_key is None:
        return None
    return Identity(loaded.resolve(listener.tls_certificate), loaded.resolve(listener.tls_key), field)


def warnings(loaded: LoadedConfig) -> list[Problem]:
    """Say what works, and is unwise all the same."""
    return [*_inline_password(loaded.config), *_readable_on_the_way(loaded.config), *_open_to_all(loaded.config)]


def _text(path: Path, field: str, subject: str, fix: str) -> str:
    """Read a file; `field` and `subject` say in a message which setting and which file it is about."""
    try:
        return read_at_most(path, MOST_BYTES).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        problem = wrong(f"{subject}is not UTF-8 text", fix, field)
    except OSError as error:
        problem = wrong(f"{subject}cannot be read ({reason_of(error)})", _fix_of(error, fix), field)
    raise ConfigError([problem])


def _fix_of(error: OSError, otherwise: str) -> str:
    return (error.errno == errno.EFBIG and error.strerror) or otherwise


def _state_dir(folder: Path, config: Config) -> Path:
    """The state folder, which need not be there yet.

    Raises:
        ConfigError: it is no folder, and cannot be made.
    """
    # Not Path.resolve: it fails where links lead in a circle.
    state_dir = Path(os.path.realpath(folder / Path(config.state_dir).expanduser()))
    try:
        if stat.S_ISDIR(state_dir.stat().st_mode):
            return state_dir
        problem = wrong(f"{state_dir} is no folder", "name a folder", "state_dir")
    except (FileNotFoundError, PermissionError):  # it may be another user's
        return state_dir
    except OSError as error:
        problem = wrong(f"{state_dir} cannot be used ({reason_of(error)})", "name another folder", "state_dir")
    raise ConfigError([problem])


def _password(
    section: DatabaseConfig | ReadersConfig,
    name: str,
    folder: Path,
    credentials: Path,
    environment: Mapping[str, str],
) -> str | None:
    file = None if section.password_file is None else _resolve(folder, section.password_file, credentials)
    return from_either(section.password_env, file, environment, field=f"{name}.password")


def _resolve(folder: Path, path: str, credentials: Path) -> Path:
    if path.startswith(CREDENTIAL):
        return credentials / path.removeprefix(CREDENTIAL)
    return folder / Path(path).expanduser()


def _dsns(config: Config) -> Iterator[tuple[str, str]]:
    """Each DSN that there is, with the field that it is in."""
    for field_, dsn in (("database.dsn", config.database.dsn), ("readers.dsn", config.readers.dsn)):
        if dsn is not None:
            yield field_, dsn


def _inline_password(config: Config) -> Iterator[Problem]:
    for field_, dsn in _dsns(config):
        parts = urlsplit(dsn)
        if parts.password or "password" in dict(parse_qsl(parts.query)):
            fix = "move it out, into `password_env` or `password_file`"
            yield wrong("holds a password that every reader of this file sees", fix, field_)


def _readable_on_the_way(config: Config) -> Iterator[Problem]:
    for field_, dsn in _dsns(config):
        if not is_private(dsn):
            problem = "leads to another machine, and whoever is between can read and change what travels"
            yield wrong(problem, f"let TLS check the server: {form_of(dsn).verified}", field_)


def _unusable_files(config: Config) -> Iterator[Problem]:
    """Files which a DSN names that cannot be read: drivers tell of them in words that name neither option nor file."""
    for field_, dsn in _dsns(config):
        for option, path in files_of(dsn):
            what = _why_unusable(option, path)
            if what is not None:
                yield wrong(*what, field_)


def _why_unusable(option: str, path: str) -> tuple[str, str] | None:
    if not Path(path).is_absolute():
        return f"`{option}` is {path}, and where that starts is not known", "write the whole path"
    try:
        Path(path).open("rb").close()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return f"{path} of `{option}` cannot be read ({reason})", "give a file that the daemon may read"
    return None


def _open_to_all(config: Config) -> Iterator[Problem]:
    listeners = (
        ("api", config.api, "the token"),
        ("dashboard", config.dashboard, "the password"),
        ("conditions", config.conditions, "the token"),
    )
    for name, listener, what in listeners:
        if not listener.is_local and listener.tls_certificate is None:
            problem = (
                f"{listener.host} is reachable from other machines, and without TLS whoever is between can read {what}"
            )
            yield wrong(problem, "give `tls_certificate` and `tls_key` (docs/security.md)", f"{name}.host")
    for i, source in enumerate(config.sources):
        at = source.listening
        if at is not None and not is_loopback(at.host):
            problem = f"{at.host} is reachable from other machines, and whoever reaches it may send readings"
            yield wrong(problem, "see that only those you trust do, or use 127.0.0.1", f"sources[{i}].host")
