"""The control API: what the daemon does, what it stored, and the few things it can be told."""

from daemon.api.app import make_app
from daemon.api.server import ApiServer, api_server

__all__ = ["ApiServer", "api_server", "make_app"]
