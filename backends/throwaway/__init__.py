"""Private servers in a folder, for tests and benchmarks: started, used and thrown away. Never for data anyone keeps."""

from backends.base import StoreError


class ServerNotInstalled(StoreError):
    """The server's program is not on this machine; the message says what to install."""
