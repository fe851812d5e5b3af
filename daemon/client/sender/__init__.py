"""A sender for Python programs: hands readings to a daemon over TCP, and loses none."""

from daemon.client.sender.connection import ConnectionLost, SenderError
from daemon.client.sender.sender import Sender

__all__ = ["ConnectionLost", "Sender", "SenderError"]
