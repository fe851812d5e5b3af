"""An experiment as it is asked for: the order of its blocks, and the command that repeats it. Pure."""

import json
import random
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from schemas.api.interference import Experiment
from schemas.checking.problems import ConfigError, problems
from schemas.config import Workload
from schemas.config.section import Section


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


# --- words for people ------------------------------------------------------------------------------------------------

S = TypeVar("S", bound=Section)

PLACES = ("clients", "period_s", "deadline_s")
"""What the parts after a workload's kind are, one after the other."""


def workload_of(text: str, taken: Sequence[str] = ()) -> Workload:
    """Read KIND[:CLIENTS[:PERIOD[:DEADLINE]]][:KEY=VALUE]..., e.g. `history:4:1:stretch_s=600`.

    taken: names that other workloads have; this one is called after its kind, with a number where that is taken.

    Raises:
        ConfigError: it cannot be used.
    """
    kind, *parts = text.split(":")
    fields: dict[str, Any] = {"kind": kind}
    places = iter(PLACES)
    for part in parts:
        key, sign, value = part.partition("=")
        if not sign:
            key, value = next(places, part), part
        fields[key] = value if key in ("name", "group") else _number(value)
    names = (kind if i == 1 else f"{kind}_{i}" for i in range(1, len(taken) + 2))
    fields.setdefault("name", next(name for name in names if name not in taken))
    return _checked(Workload, fields)


def experiment_of(fields: dict[str, Any]) -> Experiment:
    """Check the fields of an experiment.

    Raises:
        ConfigError: it cannot be used.
    """
    return _checked(Experiment, fields)


def _checked(model: type[S], fields: dict[str, Any]) -> S:
    try:
        return model.model_validate_json(json.dumps(fields), strict=True)
    except ValidationError as error:
        raise ConfigError(problems(model, error.errors(include_url=False))) from None


def _number(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value == int(value) and "." not in text else value


def workload_words(workload: Workload) -> str:
    """What `workload_of` reads."""
    given = workload.model_dump(exclude_defaults=True, mode="json")
    words = [workload.kind.value, *(f"{getattr(workload, key):g}" for key in PLACES)]
    rest = {key: value for key, value in given.items() if key not in ("kind", *PLACES)}
    if rest.get("name") == workload.kind:
        del rest["name"]
    return ":".join([*words, *(f"{key}={value}" for key, value in rest.items())])


def command_of(experiment: Experiment, *more: str) -> str:
    """The command that repeats an experiment; `more` are further words of it."""
    return shlex.join(["triggerlog", "interference", *more, *_options(experiment)])


def _options(experiment: Experiment) -> Iterator[str]:
    for workload in experiment.workloads:
        yield from ("--workload", workload_words(workload))
    yield from ("--pairs", str(experiment.pairs), "--block", f"{experiment.block_s:g}")
    yield from ("--warm-up", f"{experiment.warm_up_s:g}")
    if experiment.doses:
        yield from ("--doses", ",".join(map(str, experiment.doses)))
    if experiment.seed != 1:
        yield from ("--seed", str(experiment.seed))
    if experiment.governed:
        yield "--governed"


def readers_words(experiment: Experiment) -> str:
    """The workloads in words: `4 scan, 2 history every 1 s`."""
    words = []
    for each in experiment.workloads:
        often = f"every {each.period_s:g} s" if each.period_s else "without a pause"
        count = "" if experiment.doses else f"{each.clients} "
        words.append(f"{count}{each.kind.value} {often}")
    return ", ".join(words)
