"""A Debian tree with triggerlog in it, as an operator would install it: made once, kept under `build`.

`python -m tests.systemd.tree` makes it and says where it is. Needs root, debootstrap and the network.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BUILD = ROOT / "build" / "systemd"
SUITE = "bookworm"
PACKAGES = ("systemd", "systemd-sysv", "dbus", "libnss-systemd", "procps", "python3", "python3-venv")
COMMAND = Path("/opt/triggerlog/.venv/bin/triggerlog")


def tree() -> Path:
    """The tree, with the locked packages and this checkout's code.

    Raises:
        CalledProcessError: a step failed; what it said is on stderr.
    """
    lock = (ROOT / "requirements.lock").read_bytes()
    made_from = hashlib.sha256(b"\0".join([lock, SUITE.encode(), *map(str.encode, PACKAGES)])).hexdigest()
    place, mark = BUILD / "debian", BUILD / "debian.made-from"
    if not (mark.exists() and mark.read_text() == made_from):
        mark.unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        BUILD.mkdir(parents=True, exist_ok=True)
        _run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(place))
        _install_locked(place)
        mark.write_text(made_from)
    _install_project(place)
    return place


def _install_locked(place: Path) -> None:
    """The packages of the lock, fetched out here and installed in there without a network."""
    version = _inside(place, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    wheels, lock = BUILD / "wheels", ROOT / "requirements.lock"
    fetch = ("download", "--quiet", "--only-binary=:all:", "--require-hashes", "--python-version", version.strip())
    _run(sys.executable, "-m", "pip", *fetch, "-r", str(lock), "-d", str(wheels))
    inside = place / "opt" / "wheels"
    shutil.rmtree(inside, ignore_errors=True)
    shutil.copytree(wheels, inside)
    shutil.copy(lock, place / "opt" / "requirements.lock")
    _inside(place, "python3", "-m", "venv", str(COMMAND.parent.parent))
    _pip(place, "--require-hashes", "-r", "/opt/requirements.lock")
    shutil.rmtree(inside)


def _install_project(place: Path) -> None:
    """The wheel that this checkout makes."""
    folder = BUILD / "project"
    shutil.rmtree(folder, ignore_errors=True)
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    (wheel,) = folder.glob("*.whl")
    shutil.copy(wheel, place / "opt" / wheel.name)
    _pip(place, "--no-deps", "--force-reinstall", f"/opt/{wheel.name}")


def _pip(place: Path, *arguments: str) -> None:
    pip = (str(COMMAND.with_name("pip")), "install", "--quiet", "--no-index", "--find-links", "/opt/wheels")
    _inside(place, *pip, *arguments)


def _inside(place: Path, *command: str) -> str:
    return _run("chroot", str(place), "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *command)


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    sys.stdout.write(f"{tree()}\n")
