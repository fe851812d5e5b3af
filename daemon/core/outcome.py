"""How a command ends and what it says: shared by the commands of the command line."""

import os
from collections.abc import Mapping
from importlib.util import find_spec

VISITS_NEED = {"lsst": "lsst-sphgeom"}
"""What visits need beyond the daemon (the extra `visits`): packages by the names of their modules."""


class CommandFailed(Exception):
    """A command cannot do what was asked; the message is one line that says why and what fixes it."""


def require_extra(extra: str, what: str, packages: Mapping[str, str]) -> None:
    """See that the packages of an extra are installed.

    Args:
        extra: its name in pyproject.toml.
        what: needs it.
        packages: by the names of their modules.

    Raises:
        CommandFailed: one is missing; the message says what installs it.
    """
    missing = ", ".join(package for module, package in packages.items() if find_spec(module) is None)
    if missing:
        install = f"pip install 'triggerlog[{extra}]' (in a checkout: make setup)"
        raise CommandFailed(f"{what} needs {missing}, not installed here: {install}")


def examples(*lines: str) -> str:
    """Write the examples under a command's help; a blank line between two, or they would run into one paragraph."""
    return "\n\n".join(["Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])


def reason_of(error: OSError) -> str:
    """Say why the system refused, in its own short words; event loops put sentences of theirs around them."""
    return os.strerror(error.errno).lower() if error.errno else str(error)
