"""The processes of visits: `python -m daemon.workloads.visits` runs visits, with `worker` it is a worker."""

import os

# A worker that forks must have no thread, and a few thousand numbers are multiplied faster by one: numpy reads this
# when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
from functools import partial

from backends.base import StoreError
from daemon.core.process.children import give_way
from daemon.workloads.frame.messages import Message, Parent, Refused, own_output, run_process
from daemon.workloads.visits.messages import Spec
from daemon.workloads.visits.visit_loop import VisitLoop
from daemon.workloads.visits.workers import NoWorkers, crew_of, store_of, work
from schemas.config.visits import Connections


def main() -> None:
    """Run visits until all are done, until it is to stop, or until the parent is gone; or the tiles of visits."""
    if sys.argv[1:] == ["worker"]:
        with own_output() as answers:
            work(sys.stdin.buffer, answers)
    else:
        run_process(Spec, _visits)


async def _visits(spec: Spec, parent: Parent[Message]) -> None:
    if spec.gives_way:
        give_way()
    try:
        store = store_of(spec)
        # The store of the run holds the schema by its connection.
        tiles = store_of(spec) if spec.visits.connections is Connections.PER_VISIT else store
        crew = crew_of(spec, tiles)
        try:
            # A visit that the parent did not take before both are killed is in the database alone, and in none of the
            # files: so the next one begins when all but the last message was taken.
            acknowledged = partial(parent.until_acknowledged, 1)
            await VisitLoop(spec, store, crew, parent.send, parent.stop, acknowledged=acknowledged).run()
        finally:
            await crew.close()
            await tiles.close()
            await store.close()
    except (StoreError, NoWorkers) as error:
        raise Refused(str(error)) from None


if __name__ == "__main__":
    main()
