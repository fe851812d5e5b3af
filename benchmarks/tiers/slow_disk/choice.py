"""The slow disk that can be had here."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.tiers.slow_disk import shimmed, throttled

LOOP, SHIM = KINDS = ("loop", "shim")
WORDS = {LOOP: "a loop device with limits of the kernel", SHIM: "a preloaded library that waits as a hard disk does"}
IMAGE_MIB = 6144


class NoSlowDisk(Exception):
    """There is none to be had; the message is one line with what is lacking."""


@dataclass(frozen=True, kw_only=True)
class SlowDisk:
    """A slow disk. folder: on it. settings: of a PostgreSQL that uses it. note: why it is not the better one, or ""."""

    kind: str
    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def words(self) -> str:
        """What it is."""
        return WORDS[self.kind]


def chosen(wanted: str | None, loop_lacks: str | None, shim_lacks: str | None) -> tuple[str, str]:
    """The kind that is used, and a sentence that says why where it is not the better one; pure.

    wanted: a kind, or None for the best one. loop_lacks, shim_lacks: what is missing for either, None where nothing is.

    Raises:
        NoSlowDisk: there is none.
    """
    lacks = {LOOP: loop_lacks, SHIM: shim_lacks}
    for kind in KINDS if wanted is None else (wanted,):
        if lacks[kind] is None:
            is_second = wanted is None and kind == SHIM
            return kind, f"The slow disk is {WORDS[SHIM]}: for {WORDS[LOOP]}, {loop_lacks}." if is_second else ""
    missing = "; ".join(f"for {WORDS[kind]}, {lacks[kind]}" for kind in KINDS if wanted in (None, kind))
    raise NoSlowDisk(f"there is no slow disk: {missing}")


@contextmanager
def slow_disk(folder: Path, wanted: str | None, print_line: Callable[[str], None]) -> Iterator[SlowDisk]:
    """Have a slow disk; nothing is left of it afterwards.

    folder: on a fast disk, for the file of a device. wanted: as `chosen` takes it.

    Raises:
        NoSlowDisk: there is none; the message says what is lacking.
    """
    kind, note = chosen(wanted, throttled.lacking(), shimmed.lacking())
    if note:
        print_line(note)
    with ExitStack() as stack:
        # A server of another account has to pass the folders above.
        place = Path(tempfile.mkdtemp(prefix="triggerlog-slow-"))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        place.chmod(0o711)
        slow = place / "disk"
        slow.mkdir(mode=0o711)
        try:
            if kind == LOOP:
                stack.enter_context(throttled.throttled(folder / "slow.img", slow, IMAGE_MIB))
                yield SlowDisk(kind=kind, folder=slow)
            else:
                stack.enter_context(shimmed.shimmed(place, slow))
                yield SlowDisk(kind=kind, folder=slow, settings=shimmed.SERVER_SETTINGS, note=note)
        except (throttled.NotThrottled, shimmed.NotShimmed) as error:
            raise NoSlowDisk(f"there is no slow disk: {error}") from None
