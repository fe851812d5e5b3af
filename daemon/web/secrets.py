"""Secrets: where they come from, and how they are compared."""

import hmac
from collections.abc import Mapping
from pathlib import Path

from schemas.checking.problems import ConfigError, wrong

LONGEST = 64 * 1024
"""Characters of a secret."""


def same(given: str, secret: str) -> bool:
    """Compare in a time that does not tell how much of it was right."""
    return hmac.compare_digest(given.encode(), secret.encode())


def from_environment(name: str, environment: Mapping[str, str], *, field: str) -> str:
    """The secret in an environment variable that `field` names.

    Raises:
        ConfigError: it is not set, or empty.
    """
    if not environment.get(name):
        # The name is not shown: someone may have put the secret itself where its name belongs.
        problem = "the environment variable it names is not set"
        other = field.rpartition(".")[2].replace("_env", "_file")
        raise ConfigError([wrong(problem, f"set it, or use `{other}`", field)])
    return environment[name]


def from_file(path: Path, *, field: str, what: str = "password") -> str:
    """The secret in the first line of a file that `field` names.

    Raises:
        ConfigError: it cannot be read, or has none.
    """
    try:
        with path.open(encoding="utf-8") as file:
            secret = file.readline(LONGEST).removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "it is not UTF-8 text"
        fix = f"give a file that the daemon may read, with the {what} in its first line"
        raise ConfigError([wrong(f"{path} cannot be read ({reason})", fix, field)]) from None
    if not secret:
        raise ConfigError([wrong(f"the first line of {path} is empty", f"write the {what} into it", field)])
    return secret


def from_either(
    variable: str | None,
    file: Path | None,
    environment: Mapping[str, str],
    *,
    field: str,
    what: str = "password",
    least: int = 0,
) -> str | None:
    """The secret of an environment variable or of a file, whichever is named; None where neither is.

    field: where they are named, without `_env` and `_file`. least: characters that it needs.

    Raises:
        ConfigError: there is none where it should be, or one that is too short.
    """
    if variable is not None:
        field = f"{field}_env"
        return long_enough(from_environment(variable, environment, field=field), least, field=field)
    if file is not None:
        field = f"{field}_file"
        return long_enough(from_file(file, field=field, what=what), least, field=field)
    return None


def long_enough(secret: str, least: int, *, field: str) -> str:
    """See that a secret is too long to be guessed.

    Raises:
        ConfigError: it is not.
    """
    if len(secret) < least:
        problem = f"what it holds has {len(secret)} characters, and at least {least} are needed"
        raise ConfigError([wrong(problem, "make one that nobody guesses: openssl rand -hex 24", field)])
    return secret
