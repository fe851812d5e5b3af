"""What every source offers to the service."""

from collections.abc import Mapping
from typing import Any, Protocol

from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.intake import Intake
from schemas.api.status import SourceStatus

Intakes = Mapping[str, Intake]


class Source(Protocol):
    """A way for readings to come in."""

    async def start(self) -> None:
        """Begin to receive.

        Raises:
            OSError: the address cannot be listened on.
        """

    async def stop(self) -> None:
        """Receive nothing more; what was received is with the intakes when this returns."""

    async def close(self) -> None:
        """Say the last acknowledgements and let go of all connections; the pipelines have committed what they had."""

    def status(self) -> SourceStatus:
        """How it does."""

    def change(self, config: Any) -> None:
        """Take over what of its section can change while it runs: the fields that it calls `RELOADABLE`."""

    def parts(self) -> list[Part]:
        """What of it has to move while the daemon runs, for the watchdog."""
