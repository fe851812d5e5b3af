"""What talks to a daemon from outside: a sender of readings, questions to its API, and its status in a terminal.

`Sender` is what a program with readings uses. `sender/` speaks the wire protocol, `reach` finds a daemon's address,
token and certificate, `terminal` shows its status.
"""

from daemon.client.sender import Sender

__all__ = ["Sender"]
