"""What the scripts of the page use from Python: limits, defaults, names and colours, which are written once."""

from enum import Enum
from typing import Any, get_args

import orjson
from pydantic import BaseModel

from dashboard.access.login import ENDED
from dashboard.alarms.board import SHELVES_MIN
from dashboard.feed.frames import PATHS
from dashboard.feed.history import GAP_S, HOUR_S, KEPT_S, LONG_BUCKET_S
from dashboard.tabs.figures import COLOURS, FONT, graph_config
from dashboard.tabs.instruments.drawer import STATE_WORDS
from dashboard.tabs.page import RANGES
from schemas.api.interference import FIGURES, Experiment
from schemas.checking.fields import bare, choices, constraint, keys, sections_of
from schemas.config.readers import GovernorConfig
from schemas.config.visits import VisitsConfig
from schemas.config.workloads import OWN_FIELDS, QUESTIONS, SPANS_S, Workload, WorkloadKind
from schemas.states import STATE_LETTERS

RULES = {"min": "ge", "max": "le", "pattern": "pattern", "maxLength": "max_length", "title": "words"}
"""Attribute of an input, by the rule of pydantic that it is taken from."""

LEAST_ABOVE = 1e-6
"""Added to a limit that is itself excluded: a form knows no such limits."""

PERIODS_S: dict[WorkloadKind, tuple[float, float]] = {
    WorkloadKind.NEWEST: (1, 0.1),
    WorkloadKind.TREND: (1, 0.5),
    WorkloadKind.HISTORY: (10, 0),
    WorkloadKind.SNAPSHOT: (5, 1),
    WorkloadKind.WINDOW: (2, 0.5),
    WorkloadKind.SCAN: (60, 0),
    WorkloadKind.RANDOM: (10, 0),
    WorkloadKind.LIGHT_CURVE: (1, 0),
    WorkloadKind.CONE: (1, 0),
}
"""Period that the forms suggest: of a workload by itself, which is its deadline, too, and in an experiment, where most
clients ask again as soon as they have their answer: that is the load."""


def settings() -> dict[str, Any]:
    """All of it, as `Settings` in tests/javascript/page.d.ts declares it."""
    return {
        "colours": COLOURS,
        "font": FONT,
        "graph": graph_config(),
        "session_ended": ENDED,
        "history": {"hour_s": HOUR_S, "bucket_s": LONG_BUCKET_S, "kept_s": KEPT_S, "gap_s": GAP_S},
        "ranges_s": {name: width for name, _, width in RANGES},
        "paths": PATHS,
        "shelves_min": SHELVES_MIN,
        "states": {letter: _state(letter) for letter in STATE_LETTERS},
        "figures": {name: f"{title}, {unit}" for name, (title, unit) in FIGURES.items()},
        "kinds": {kind.value: _kind(kind) for kind in WorkloadKind},
        "workload": form_fields(Workload),
        "governor": form_fields(GovernorConfig),
        "experiment": form_fields(Experiment),
        "visits": form_fields(VisitsConfig),
    }


def settings_element() -> str:
    """The HTML element that carries them; what is in it cannot end it."""
    text = orjson.dumps(settings()).decode().replace("<", "\\u003c")
    return f'<script type="application/json" id="settings">{text}</script>'


def form_fields(section: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """Describe the input of each field of a section by its key; `outer.inner` for the fields of sections inside.

    `kind` is number, select, text or other. Where there is one: `value` (the default), `min`, `max`, `step`, `pattern`,
    `title`, `options`, and `maxLength` (letters, or entries of a list). `needed`: whether it has to be filled in.
    """
    found: dict[str, dict[str, Any]] = {}
    for key, field in keys(section).items():
        if inner := sections_of(field.annotation):
            found |= {f"{key}.{name}": described for name, described in form_fields(inner[0]).items()}
            continue
        value = None if field.is_required() else field.default
        limits = {name: constraint(field.annotation, field, rule) for name, rule in RULES.items()}
        above = constraint(field.annotation, field, "gt")
        limits["min"] = limits["min"] if above is None else above + LEAST_ABOVE
        limits["value"] = value.value if isinstance(value, Enum) else value
        known = {name: limit for name, limit in limits.items() if limit is not None}
        found[key] = known | {"needed": type(None) not in get_args(field.annotation)} | _input(field.annotation)
    return found


def _input(annotation: Any) -> dict[str, Any]:
    if offered := choices(annotation):
        return {"kind": "select", "options": [[choice, choice.replace("_", " ")] for choice in offered]}
    if bare(annotation) is int:
        return {"kind": "number", "step": 1}
    if bare(annotation) is float:
        return {"kind": "number"}
    return {"kind": "text" if bare(annotation) is str else "other"}


def _state(letter: str) -> dict[str, str]:
    state = STATE_LETTERS[letter]
    glyph, words = STATE_WORDS[state]
    return {"name": state.value, "glyph": glyph, "words": words.partition(":")[0]}


def _kind(kind: WorkloadKind) -> dict[str, Any]:
    alone, in_experiment = PERIODS_S[kind]
    defaults = {name: Workload.model_fields[name].default for name in OWN_FIELDS.get(kind, ())}
    if "stretch_s" in defaults:
        defaults["stretch_s"] = SPANS_S[kind]
    return {
        "words": QUESTIONS[kind],
        "visits": kind.is_of_visits,
        "values": {"period_s": alone, "deadline_s": alone} | defaults,
        "experiment_period_s": in_experiment,
    }
