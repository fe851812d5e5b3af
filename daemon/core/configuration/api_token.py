"""The API's token: the one that the configuration names, or one that the daemon makes and keeps."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from backends.files import replace_file
from daemon.core.configuration.loading import LoadedConfig
from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed, fix_of, reason_of
from daemon.core.outside import SystemDisk
from daemon.web.secrets import from_either
from schemas.checking.problems import ConfigError, wrong

FILE = "api-token"
LEAST = 16
"""Characters of a token; each of 16 random letters and digits is worth some 5 bits."""

LONGEST = 2**16

DISK = SystemDisk()

AGAIN_S = 5.0

_unwritten: dict[Path, str] = {}
"""Tokens that were made, and are not in their files."""

MAKE = "make one that nobody guesses: openssl rand -hex 24"


def configured_token(loaded: LoadedConfig, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token that the configuration names; None when it names none.

    Raises:
        ConfigError: there is none where it says, or one that cannot be used.
    """
    api = loaded.config.api
    file = None if api.token_file is None else loaded.resolve(api.token_file)
    token = from_either(api.token_env, file, environment, field="api.token", what="token", least=LEAST)
    if token is not None and not _may_be_sent(token):
        field = "api.token_file" if api.token_env is None else "api.token_env"
        raise ConfigError([wrong("what it holds has other characters than ASCII", MAKE, field)])
    return token


def api_token(loaded: LoadedConfig, environment: Mapping[str, str] = os.environ) -> str:
    """Return the configured token, or else the one in the state folder, which is made when it is not there.

    Where it cannot be written, it is made all the same; see `write_token`.

    Raises:
        ConfigError: as `configured_token`.
        CommandFailed: the file in the state folder cannot be read, or holds none that can be used.
    """
    configured = configured_token(loaded, environment)
    if configured is not None:
        return configured
    path = loaded.state_dir / FILE
    try:
        token = stored_token(loaded.state_dir) or _unwritten.get(path)
    except OSError as error:
        fix = fix_of(error, "let the daemon's user own it")
        raise CommandFailed(f"state_dir: {path} cannot be used ({reason_of(error)}); {fix}") from None
    if token is None:
        token = _unwritten[path] = secrets.token_urlsafe(32)
        with contextlib.suppress(OSError):
            _write(path, token)
    return token


async def write_token(state_dir: Path, events: Events) -> None:
    """Write the token that the daemon made, as soon as the disk takes it; return when it is there."""
    path, has_warned = state_dir / FILE, False
    while path in _unwritten:
        try:
            await asyncio.to_thread(_write, path, _unwritten[path])
        except OSError as error:
            if not has_warned:
                fix = fix_of(error, "let the daemon's user own it")
                events.warning(
                    f"{path} cannot be written ({reason_of(error)}): no command finds the API's token; {fix}"
                )
            has_warned = True
            await asyncio.sleep(AGAIN_S)


def stored_token(state_dir: Path) -> str | None:
    """The token that a daemon keeps in its state folder; None when there is none.

    Raises:
        OSError: it may not be read by this user.
        CommandFailed: it cannot be a token.
    """
    path = state_dir / FILE
    try:
        token = DISK.read(path, 0, LONGEST).strip(b"\0\n\r\t ")
    except FileNotFoundError:
        return None
    if not token:  # the disk was full when it was made, or cannot read it any more
        return None
    if len(token) < LEAST or not _may_be_sent(token.decode("latin-1")):
        raise CommandFailed(f"{path}: a token has at least {LEAST} characters, all ASCII; {MAKE}, or delete the file")
    return token.decode("ascii")


def _may_be_sent(token: str) -> bool:
    """Whether it can stand in the header of a request."""
    return token.isascii() and token.isprintable()


def _write(path: Path, token: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    DISK.remove(path)
    # Nobody else may read it, not even for the moment before a chmod; and half a token is never seen.
    replace_file(path, f"{token}\n".encode(), mode=0o600)
    del _unwritten[path]
