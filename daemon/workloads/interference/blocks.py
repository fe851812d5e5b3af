"""The order of an experiment's blocks: pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.api.interference import Experiment
from schemas.config import Workload


@dataclass(frozen=True)
class Planned:
    """A block that is to come: its kind, and the clients that read in it."""

    kind: Literal["A", "B"]
    readers: int


def planned(experiment: Experiment) -> list[Planned]:
    """The blocks in order: A B A B ... A, so that each B stands between two A's and a straight drift cancels.

    Of doses, each repeat has all of them once, in an order of its own: a drift that is not straight meets every dose
    alike (randomised complete blocks; G. E. P. Box, J. S. Hunter, W. G. Hunter, Statistics for Experimenters, 2nd ed.,
    section 4.2).
    """
    shuffle = random.Random(experiment.seed)  # noqa: S311 - an order, and no secret
    blocks = [Planned("A", 0)]
    for _ in range(experiment.pairs):
        doses = list(experiment.doses) or [sum(workload.clients for workload in experiment.workloads)]
        shuffle.shuffle(doses)
        for dose in doses:
            blocks += [Planned("B", dose), Planned("A", 0)]
    return blocks


def shares(readers: int, workloads: Sequence[Workload]) -> dict[str, int]:
    """Deal clients out to the workloads, one after the other, by their names; the first ones get one more."""
    count = len(workloads)
    return {each.name: readers // count + (i < readers % count) for i, each in enumerate(workloads)}


def dealt(experiment: Experiment, block: Planned) -> dict[str, int]:
    """How many clients of each workload read in a block."""
    if block.kind == "A":
        return dict.fromkeys((each.name for each in experiment.workloads), 0)
    if experiment.doses:
        return shares(block.readers, experiment.workloads)
    return {each.name: each.clients for each in experiment.workloads}


def staffed(experiment: Experiment) -> list[Workload]:
    """The workloads with as many clients as any block asks of them; at least one."""
    if not experiment.doses:
        return list(experiment.workloads)
    most = shares(max(experiment.doses), experiment.workloads)
    return [each.model_copy(update={"clients": max(1, most[each.name])}) for each in experiment.workloads]


def seconds_of(experiment: Experiment) -> float:
    """How long all blocks take."""
    return len(planned(experiment)) * experiment.block_s
