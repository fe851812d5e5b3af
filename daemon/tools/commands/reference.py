"""`triggerlog config-reference`: prints every section and key of a configuration."""

from collections.abc import Iterator
from enum import Enum
from inspect import getdoc
from typing import Any, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from daemon.core.outcome import examples
from schemas.checking.fields import bare, choices, constraint, keys, limits, sections_of
from schemas.config import Config

EPILOG = examples("triggerlog config-reference | less")


def config_reference() -> None:
    """Print the reference of the configuration as Markdown."""
    typer.echo(reference(), nl=False)


INTRODUCTION = """\
# Configuration

One TOML file holds the whole configuration. `triggerlog check-config FILE` checks it: it prints
each problem with its field and what to do, or what the configuration means. It asks the database
too, without changing anything there, unless `--offline` is given. `triggerlog schema FILE` prints
the statements that the daemon would run in the database, `triggerlog run FILE` starts the daemon.

- A command takes the file as an argument, wherever it stands, if its name ends with `.toml`, or as
  `--config FILE`; else it uses the one that `TRIGGERLOG_CONFIG` names, else `triggerlog.toml` in
  this folder. What puts load on a database (`bench`, `drill`, `visits run`, `snapshots run`,
  `interference`) does so only where it is named.
- Only `groups` is required: by default readings come in over TCP on port 8122 of this machine, and
  go to an embedded PostgreSQL under `state_dir`.
- Unknown keys are errors.
- Passwords do not belong in the file: name an environment variable (`password_env`) or a file
  (`password_file`).
- Relative paths (`state_dir`, `password_file`, `tls_key` and others) are relative to the folder of
  the configuration file.
- [docs/examples](examples) has complete examples.

`triggerlog config-reference` prints this page; `make reference` writes it again.
"""

EXAMPLES: dict[str, str] = {
    "": """\
logger = "control-node-1"
state_dir = "/var/lib/triggerlog"
""",
    "groups": """\
[[groups]]
name = "bpm"
count = 120                     # bpm_000 ... bpm_119
channels = [{ name = "x", unit = "mm" }, { name = "y", unit = "mm" }]
layout = "rows"

[[groups]]
name = "blm"
instruments = ["blm_ring_west", "blm_ring_east"]
""",
    "groups.channels": """\
[[groups.channels]]
name = "loss"
unit = "count"
dtype = "uint32"
""",
    "groups.retention": """\
[groups.retention]              # of the group above it
keep_days = 365
max_gib = 0                     # no limit
""",
    "groups.decimation": """\
[groups.decimation]             # of the group above it
after_days = 90
keep_every = 100
""",
    "sources.tcp": """\
[[sources]]
kind = "tcp"
host = "0.0.0.0"                # senders on other machines
port = 8122
""",
    "sources.udp": """\
[[sources]]
kind = "udp"
port = 8122
receive_buffer_kib = 8192
""",
    "sources.simulated": """\
[[sources]]
kind = "simulated"
group = "blm"
rate = 25.0
missing = 0.01
""",
    "retention": """\
[retention]
keep_days = 90
max_gib = 2000
min_free_percent = 10
disk = "/var/lib/postgresql"
disk_tier = "fast"
""",
    "decimation": """\
[decimation]
after_days = 30
bucket_s = 60.0
window_s = 300.0
""",
    "tiers": """\
[[tiers]]
name = "fast"
max_gib = 500

[[tiers]]
name = "slow"
tablespace = "slow"
after_days = 30
""",
    "tiering": """\
[tiering]
policy = "both"
half_life_days = 2.0
""",
    "database": """\
[database]
dsn = "postgresql://logger@db.example.org:5432/beam"
password_file = "/etc/triggerlog.password"
schema = "triggerlog"
layout = "arrays"
durability = "sync"
""",
    "assembly": """\
[assembly]
timeout_ms = 200.0
""",
    "committer": """\
[committer]
max_waiting_mib = 1024.0
""",
    "journal": """\
[journal]
max_mib = 16384.0               # forty minutes at 1,000 triggers/s of 120 instruments with four channels
""",
    "alarms": """\
[alarms]
stale_s = 5.0
commit_p99_ms = 50.0
""",
    "readers": """\
[readers]
dsn = "postgresql://reader@replica.example.org:5432/beam"
give_up_s = 120.0
""",
    "readers.workloads": """\
[[readers.workloads]]
name = "displays"
kind = "newest"
clients = 10
period_s = 0.5
deadline_s = 0.2
""",
    "readers.governor": """\
[readers.governor]
commit_p99_ms = 50.0
""",
    "visits": """\
[visits]
start = true                    # in the schema triggerlog_visits
cadence = "fast"
visits = 4800
history_days = 60.0
""",
    "conditions": """\
[conditions]
serve = true                    # in the schema triggerlog_conditions
host = "0.0.0.0"
reads_freely = true
processes = 2
""",
    "folders": """\
[folders]
serve = true                    # in the schema triggerlog_folders
""",
    "visits.survey": """\
[visits.survey]
scale = 0.02                    # a fiftieth of the sky, of the objects in a field, and of the visits a night
""",
    "api": """\
[api]
host = "0.0.0.0"                # for other machines: docs/security.md
port = 8120
token_file = "/etc/triggerlog/api-token"
tls_certificate = "/etc/triggerlog/node.crt"
tls_key = "/etc/triggerlog/node.key"
""",
    "dashboard": """\
[dashboard]
host = "0.0.0.0"
port = 8121
password_file = "/etc/triggerlog/page-password"
tabs = ["orbit_fft.py"]
time_zone = "Europe/Berlin"
tls_certificate = "/etc/triggerlog/node.crt"
tls_key = "/etc/triggerlog/node.key"
""",
}
"""An example of every section, by its path; all of them together, in this order, are a valid configuration."""

ARRAYS = ("groups", "groups.channels", "readers.workloads", "tiers")
"""Sections of which there may be several."""

TYPES: dict[Any, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def reference() -> str:
    """Write the whole reference as Markdown."""
    return "\n".join([INTRODUCTION, *_section(Config, "")])


def _section(model: type[BaseModel], path: str) -> Iterator[str]:
    """Write a section and those below it: its heading, meaning, example, and a line a key."""
    yield f"## {_heading(model, path)}\n"
    yield f"{getdoc(model)}\n"
    yield f"```toml\n{EXAMPLES[path]}```\n"
    yield "| key | type | default | meaning |\n| --- | --- | --- | --- |"
    for key, field in keys(model).items():
        yield f"| `{key}` | {_type(field)} | {_default(field)} | {_meaning(field)} |"
    yield ""
    for key, field in keys(model).items():
        sections = sections_of(_items(field.annotation))
        for section in sections:
            yield from _section(section, _path(path, key, section, len(sections) > 1))


def _heading(model: type[BaseModel], path: str) -> str:
    if not path:
        return "Top of the file"
    if "kind" in model.model_fields and path.startswith("sources."):
        table, _, kind = path.rpartition(".")
        return f'`[[{table}]]` with `kind = "{kind}"`'
    return f"`[[{path}]]`" if path in ARRAYS else f"`[{path}]`"


def _path(path: str, key: str, section: type[BaseModel], one_of_many: bool) -> str:
    below = f"{path}.{key}" if path else key
    return f"{below}.{choices(section.model_fields['kind'].annotation)[0]}" if one_of_many else below


def _items(annotation: Any) -> Any:
    inner = bare(annotation)
    return get_args(inner)[0] if get_origin(inner) is tuple else inner


def _type(field: FieldInfo) -> str:
    many = get_origin(bare(field.annotation)) is tuple
    inner = _items(field.annotation)
    if sections_of(inner):
        return "array of tables" if many else "table"
    if named := choices(inner):
        return " or ".join(f'`"{name}"`' for name in named)
    words = f"array of {TYPES[bare(inner)]}s" if many else TYPES[bare(inner)]
    allowed = "" if _form(field) else limits(field.annotation, field)
    return f"{words}, {allowed}" if allowed else words


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    default = field.get_default(call_default_factory=True)
    if default is None or isinstance(default, BaseModel | tuple):
        return ""
    if isinstance(default, Enum):
        default = default.value
    return f'`"{default}"`' if isinstance(default, str) else f"`{default}`"


def _meaning(field: FieldInfo) -> str:
    form = _form(field)
    return f"{field.description}{f' Form: {form}.' if form else ''}".replace("|", "\\|")


def _form(field: FieldInfo) -> str | None:
    """Describe the form of a text; None for an array, of which the limits give the number of items."""
    many = get_origin(bare(field.annotation)) is tuple
    words: str | None = None if many else constraint(field.annotation, field, "words")
    return words
