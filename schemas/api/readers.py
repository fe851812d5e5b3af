"""Reader workloads; the request that starts one is `schemas.config.workloads.Workload`."""

from pydantic import RootModel

from schemas.api.status import ReaderStatus


class ReadersByName(RootModel[dict[str, ReaderStatus]]):
    """Body of `GET /api/v1/readers`: the workloads that run."""
