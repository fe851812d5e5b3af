"""A sender for Python programs: hands readings to a daemon over TCP, and loses none."""

from daemon.sender.connection import ConnectionLost, SenderError
from daemon.sender.sender import Sender

__all__ = ["ConnectionLost", "Sender", "SenderError"]
