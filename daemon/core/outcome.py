"""How a command ends and what it says: shared by the commands of the command line."""

import os


class CommandFailed(Exception):
    """A command cannot do what was asked; the message is one line that says why and what mends it."""


def examples(*lines: str) -> str:
    """Write the examples under a command's help; a blank line between two, or they would run into one paragraph."""
    return "\n\n".join(["Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])


def reason_of(error: OSError) -> str:
    """Say why the system refused, in its own short words; event loops put sentences of theirs around them."""
    return os.strerror(error.errno).lower() if error.errno else str(error)
