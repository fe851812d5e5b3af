"""The API's token: the one that the configuration names, or one that the daemon makes and keeps."""

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from daemon.core.configuration.loading import LoadedConfig
from daemon.core.outcome import CommandFailed, reason_of
from daemon.web.secrets import from_either

FILE = "api-token"
LEAST = 16
"""Characters of a token; each of 16 random letters and digits is worth some 5 bits."""


def configured_token(loaded: LoadedConfig, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token that the configuration names; None when it names none.

    Raises:
        ConfigError: there is none where it says, or one that is too short.
    """
    api = loaded.config.api
    file = None if api.token_file is None else loaded.resolve(api.token_file)
    return from_either(api.token_env, file, environment, field="api.token", what="token", least=LEAST)


def api_token(loaded: LoadedConfig, environment: Mapping[str, str] = os.environ) -> str:
    """The configured token, or else the one in the state folder, which is made when it is not there.

    Raises:
        ConfigError: as `configured_token`.
        CommandFailed: the file in the state folder can be neither read nor made.
    """
    configured = configured_token(loaded, environment)
    if configured is not None:
        return configured
    path = loaded.state_dir / FILE
    try:
        return stored_token(loaded.state_dir) or _make(path)
    except OSError as error:
        raise CommandFailed(
            f"state_dir: {path} cannot be used ({reason_of(error)}); let the daemon's user own it"
        ) from None


def stored_token(state_dir: Path) -> str | None:
    """The token that a daemon keeps in its state folder; None when there is none.

    Raises:
        OSError: it may not be read by this user.
    """
    with contextlib.suppress(FileNotFoundError):
        token = (state_dir / FILE).read_text(encoding="utf-8").strip()
        return token if len(token) >= LEAST else None
    return None


def _make(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_urlsafe(32)
    new = path.with_name(f"{FILE}.new")
    new.unlink(missing_ok=True)
    # Nobody else may read it, not even for the moment before a chmod; and half a token is never seen.
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{token}\n")
    new.rename(path)
    return token
