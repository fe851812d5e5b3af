"""The clients of a daemon, for programs, the command line and the tests; nothing here runs inside the daemon.

`sender` sends readings to a source and learns which of them are safe: `Sender` is what a program with readings uses.
`api` finds a daemon's control API and asks it. `terminal` lays out on a terminal what the API answers.
"""

from daemon.client.sender import Sender

__all__ = ["Sender"]
