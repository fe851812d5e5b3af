"""`triggerlog install-units`: the systemd units, with the paths of this installation."""

import contextlib
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from backends.files import replace_file
from daemon.core.outcome import CommandFailed, examples, reason_of

EPILOG = examples(
    "triggerlog install-units --dry-run",
    "sudo /opt/triggerlog/.venv/bin/triggerlog install-units",
    "triggerlog install-units --root /srv/image /etc/beam.toml --command /opt/triggerlog/.venv/bin/triggerlog",
)

PACKAGE = Path(__file__).parents[2]
"""The folder of the package `daemon`."""

UNITS = ("triggerlog.service", "triggerlog-dashboard.service")
EXAMPLE = "triggerlog.toml"
FOLDER = Path("/etc/systemd/system")

COMMAND = "/opt/triggerlog/.venv/bin/triggerlog"
CONFIG = "/etc/triggerlog.toml"
"""What the units in the folder `systemd` name, and what is put in its place."""

_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - named, not used
"""Folders that a unit does not see: ProtectHome and PrivateTmp."""

_SAFE = re.compile(r"[A-Za-z0-9_./+:@-]+")
"""Characters that a path in a unit may have: others have a meaning in systemd."""


@dataclass(frozen=True, kw_only=True)
class File:
    """A file to write. is_ours: written again when it differs; what is the operator's is left as it is."""

    path: Path
    text: str
    is_ours: bool


def install_units(
    config: Annotated[Path, typer.Option(metavar="FILE", help="The configuration the units use.")] = Path(CONFIG),
    command: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The command the units run.", show_default="the one that is running"),
    ] = None,
    root: Annotated[
        Path, typer.Option(metavar="DIR", help="Write into a tree, e.g. of an image, and start nothing.")
    ] = Path("/"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be written, and write nothing.")] = False,
) -> None:
    """Write the systemd units, and a configuration if there is none yet.

    A file that is up to date is not written, and an existing configuration is never changed: run it again after every
    upgrade.
    """
    used = (command or running_command()).absolute()
    _check_path("--command", used)
    _check_path("--config", config)
    if not config.is_absolute():
        raise CommandFailed(f"--config: {config} is relative; give an absolute path, which the units need")
    is_here = root.resolve() == Path("/")
    if is_here and not dry_run:
        check_reachable(used)
    files = list(files_for(used, config, root))
    if dry_run:
        for file in files:
            typer.echo(f"# {file.path} ({_plan(file)})\n{file.text}")
        return
    changed = [file.path for file in files if _write(file)]
    if is_here and changed:
        _reload_systemd()
    _warn_of_state(_under(root, config))
    typer.echo("Next: edit the configuration, then run systemctl enable --now triggerlog triggerlog-dashboard")


def _warn_of_state(config: Path) -> None:
    """Say it where the unit may not write into the configured folder: a relative one lies beside the configuration."""
    with contextlib.suppress(OSError, tomllib.TOMLDecodeError):  # `check-config` tells what is wrong with the file
        state_dir = tomllib.loads(config.read_text(encoding="utf-8")).get("state_dir", "state")
        if not (isinstance(state_dir, str) and Path(state_dir).is_absolute()):
            typer.echo(
                f"warning: {config}: state_dir is {state_dir!r}, beside the configuration, where the unit may not write"
                '; give "/var/lib/triggerlog"',
                err=True,
            )


def running_command() -> Path:
    """Find the installed command, in the folder of the interpreter, where pip puts it."""
    found = Path(sys.executable).parent / "triggerlog"
    if not found.exists():
        raise CommandFailed(
            f"there is no command {found}; run `make setup` in the checkout, or name it: --command PATH"
        )
    return found


def check_reachable(command: Path) -> None:
    """Check that the units can reach the command, its interpreter and its code.

    Raises:
        CommandFailed: they cannot.
    """
    for what, path in (("the command", command), ("its Python", Path(sys.base_prefix)), ("its code", _code())):
        real = path.resolve()
        hidden = next((folder for folder in _HIDDEN if real.is_relative_to(folder)), None)
        if hidden is not None:
            raise CommandFailed(f"{what} is {real}, and units cannot see {hidden}; install under /opt instead")
        closed = next((folder for folder in (real, *real.parents) if not _is_open(folder)), None)
        if closed is not None:
            raise CommandFailed(f"{what} is {real}, and the units' user may not read {closed}; chmod a+rx {closed}")


def files_for(command: Path, config: Path, root: Path) -> Iterator[File]:
    """Give the files of an installation, in the order in which they are written."""
    yield File(path=_under(root, config), text=template(EXAMPLE).replace(CONFIG, str(config)), is_ours=False)
    for name in UNITS:
        text = template(name).replace(COMMAND, str(command)).replace(CONFIG, str(config))
        yield File(path=_under(root, FOLDER / name), text=text, is_ours=True)


def template(name: str) -> str:
    """A file of the folder `systemd`: in the package, or in a checkout next to it."""
    packaged = PACKAGE / "units"
    folder = packaged if packaged.is_dir() else PACKAGE.parent / "systemd"
    return (folder / name).read_text(encoding="utf-8")


def _check_path(option: str, path: Path) -> None:
    if not _SAFE.fullmatch(str(path)):
        raise CommandFailed(f"{option}: {path} has characters that have a meaning in a unit; use another path")


def _under(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _code() -> Path:
    return PACKAGE


def _is_open(path: Path) -> bool:
    mode = path.stat().st_mode
    wanted = stat.S_IXOTH | (stat.S_IROTH if path.is_file() else 0)
    return mode & wanted == wanted


def _plan(file: File) -> str:
    if not file.path.exists():
        return "new"
    if not file.is_ours:
        return "exists, not changed"
    return "up to date" if file.path.read_text(encoding="utf-8") == file.text else "updated"


def _write(file: File) -> bool:
    """Write a file if it is new or differs; print what was done, and return whether it was written."""
    try:
        plan = _plan(file)
        typer.echo(f"{file.path}: {plan}")
        if plan not in ("new", "updated"):
            return False
        file.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file.path, file.text.encode())
        file.path.chmod(0o644)
    except OSError as error:
        raise CommandFailed(f"{file.path} cannot be written ({reason_of(error)}); run it as root") from None
    return True


def _reload_systemd() -> None:
    systemctl = shutil.which("systemctl")
    if systemctl is None or not Path("/run/systemd/system").is_dir():
        typer.echo("systemd does not run here; it reads the units when it starts")
        return
    done = subprocess.run([systemctl, "daemon-reload"], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise CommandFailed(f"systemctl daemon-reload: {done.stderr.strip() or done.returncode}")
