"""What the API needs of the service."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from backends.base import Store
from daemon.calibration.current import Calibrations
from daemon.core.monitoring.events import Events
from daemon.telemetry.status.reporter import Reporter
from daemon.telemetry.status.storage import StorageReport
from daemon.telemetry.status.stream import StatusStream
from daemon.web.errors import ApiError
from schemas.readings import InstrumentGroup

if TYPE_CHECKING:
    from daemon.alarms import AlarmKeeper
    from daemon.decimation.keeper import DecimationKeeper
    from daemon.folders.opened import OpenedFolders
    from daemon.marks import MarkKeeper
    from daemon.pipeline.intake import Intake
    from daemon.pipeline.pipeline import Pipeline
    from daemon.tiers.keeper import TierKeeper
    from daemon.workloads.workloads import Workloads


class ApiService(Protocol):
    """The service, as far as the API is concerned."""

    @property
    def reporter(self) -> Reporter:
        """Who builds the status."""

    @property
    def stream(self) -> StatusStream:
        """The status as it changes."""

    @property
    def store(self) -> Store:
        """Where the readings are."""

    @property
    def storage(self) -> StorageReport:
        """Where they lie, and how much room there is."""

    @property
    def calibrations(self) -> Calibrations:
        """What readings are calibrated by."""

    @property
    def folders(self) -> "OpenedFolders | None":
        """Folders of channels; None where the daemon serves none."""

    @property
    def groups(self) -> Mapping[str, InstrumentGroup]:
        """By name."""

    @property
    def intakes(self) -> "Mapping[str, Intake]":
        """Pipelines by group; all of them are there soon after the start."""

    @property
    def pipelines(self) -> "Mapping[str, Pipeline]":
        """By group; empty until the store is open."""

    @property
    def decimation(self) -> "DecimationKeeper":
        """What was reduced."""

    @property
    def tiers(self) -> "TierKeeper":
        """What lies where, and moves by hand."""

    @property
    def events(self) -> Events:
        """What an operator should know."""

    @property
    def alarms(self) -> "AlarmKeeper":
        """What is wrong, and what people did about it."""

    @property
    def marks(self) -> "MarkKeeper":
        """Events that people note."""

    @property
    def workloads(self) -> "Workloads":
        """What runs beside the logger."""

    async def announce_run(self, epoch: int) -> dict[str, int | None]:
        """Take note, for good, that the timing system was restarted; raises OSError."""


def starting() -> ApiError:
    """The refusal while the store is not open yet."""
    return ApiError(503, "the daemon is starting; the database is not open yet", "try again in a moment")
