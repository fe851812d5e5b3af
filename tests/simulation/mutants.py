"""Mutants: each takes one protection out of a copy of the sources, and seeds are run until one finds it.

`python -m tests.simulation.mutants` runs all of them, or those that are named, and exits with 1 where one is not found.
Each is tried with the seed or the committed plan that is noted with it, and where that does not find it, with the seeds
from 1 on.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.__main__ import say
from tests.simulation.plan import MIXES, RESTARTS
from tests.simulation.seeds import run_seed

ROOT = Path(__file__).parents[2]
PLANS = Path(__file__).parent / "plans"
COPIED = ("backends", "daemon", "schemas", "tests/simulation", "tests/__init__.py")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A change of the sources.

    text: found just once in the file; to: what stands there instead. seed, plan: one that finds it. also: the name of
    another that is taken out with it, which makes good what is wrong without this one. mix: from which plans are drawn.
    """

    name: str
    file: str
    text: str
    to: str
    seed: int | None = None
    plan: str | None = None
    also: str | None = None
    mix: str = MIXES[0]


VAGUE = "believe a time that two runs of a trigger have between them"

MUTANTS = (
    Mutant(
        name="do not note what the database acknowledged",
        file="daemon/pipeline/log/keeper.py",
        text="        self._acknowledged.note(position)\n",
        to="        pass\n",
        plan="older-database-between-two-lives",
    ),
    Mutant(
        name="sync the same file again after a failed sync",
        file="daemon/pipeline/log/log.py",
        text=(
            "            self._writer.sync()\n"
            "        except OSError:\n"
            "            self._fail_segment()\n"
            "            raise\n"
        ),
        to=(
            "            self._writer.sync()\n"
            "        except OSError:\n"
            "            self._is_dirty = False\n"
            "            self._segments[-1].synced = self._segments[-1].last\n"
        ),
        seed=2,
    ),
    Mutant(
        name="do not sync the name of a segment",
        file="daemon/pipeline/files/segment.py",
        text=("            self._disk.sync_folder(self.path.parent)\n            self._is_named = True\n"),
        to="            self._is_named = True\n",
        seed=4,
    ),
    Mutant(
        name="do not sync the names of the log's folders",
        file="daemon/pipeline/log/log.py",
        text="        self._deferred.do(partial(make_folder, self._disk, self._folder))\n",
        to="        self._deferred.do(partial(self._disk.make_folder, self._folder))\n",
        seed=910_028,
    ),
    Mutant(
        name="do not sync dead letters",
        file="daemon/pipeline/dead_letters/writing.py",
        text=("            writer.append(records)\n            writer.sync()\n"),
        to="            writer.append(records)\n",
        seed=4,
    ),
    Mutant(
        name="commit a batch again whose number is there",
        file="backends/base.py",
        text=("    if is_ours and found.sequence >= to.sequence:\n        return True\n"),
        to=("    if is_ours and found.sequence > to.sequence:\n        return True\n"),
        plan="late-readings-alone-committed-twice",
    ),
    Mutant(
        name="do not see that the database is behind",
        file="backends/base.py",
        text="        raise CommitsLost(found)\n",
        to="        return False\n",
        seed=2,
    ),
    Mutant(
        name="hold nothing of what an asynchronous database may lose",
        file="daemon/pipeline/committer/committer.py",
        text="HOLD_TIMES * self.risk_ms / 1e3)\n",
        to="0.0)\n",
        plan="an-asynchronous-database-loses-what-it-has",
    ),
    Mutant(
        name="begin again without reading the log again",
        file="daemon/pipeline/intake/intake.py",
        text="        await keeper.read_again()\n",
        to="        keeper.release()\n",
        seed=900_004,
    ),
    Mutant(
        name="write in parts without a note",
        file="tests/simulation/store.py",
        text="TAKES_OUT = True\n",
        to="TAKES_OUT = False\n",
        seed=3,
    ),
    Mutant(
        name="do not fence the older connection of a session",
        file="daemon/sources/tcp/source.py",
        text=("            if older is not None:\n                older.fence()\n"),
        to=("            if older is not None:\n                pass\n"),
        seed=31,
    ),
    Mutant(
        name="go on with a session where it was received, not settled",
        file="daemon/pipeline/assembly/sessions.py",
        text="        resume = max(first, known.settled)\n",
        to="        resume = max(first, known.settled, known.received)\n",
        seed=6,
    ),
    Mutant(
        name="take a conflict for a double",
        file="daemon/pipeline/assembly/sessions.py",
        text="        new[wanted] = origin.sequence[wanted] >= self._doubt[origin.column[wanted]]\n",
        to="        new[wanted] = False\n",
        plan="wrong-numbers-without-a-time",
    ),
    Mutant(
        name="forget what is set aside",
        file="daemon/pipeline/assembly/triggers.py",
        text="        self.set_aside(block[new], origin[new], run.run, AsideReason.CONFLICT)\n",
        to="",
        seed=33,
    ),
    Mutant(
        name="one run for all epochs",
        file="daemon/pipeline/assembly/assembly.py",
        text=('        epochs = block["epoch"]\n        if (epochs == epochs[:1]).all():\n'),
        to=('        block["epoch"] = 0\n        epochs = block["epoch"]\n        if (epochs == epochs[:1]).all():\n'),
        seed=10,
    ),
    Mutant(
        name="acknowledge as received what is written and not synced",
        file="daemon/pipeline/log/keeper.py",
        text="                self._log.append(together)\n                self._log.sync()\n",
        to="                self._log.append(together)\n",
        seed=2,
    ),
    Mutant(
        name="trim the intake's log when its readings are closed, and not safe",
        file="daemon/pipeline/log/stretches.py",
        text="            if closing.safe_upto < stretch.closed_at:\n                break\n",
        to="",
        seed=8,
    ),
    Mutant(
        name="forget a session of which the intake's log holds something",
        file="daemon/pipeline/assembly/sessions.py",
        text="        elif ended and session not in self._pinned:\n",
        to="        elif ended:\n",
        seed=200_000_025,
    ),
    Mutant(
        name="believe of the intake's log what another daemon calls settled",
        file="daemon/pipeline/intake/replay.py",
        text="            again = is_gap | is_settled\n",
        to="            pass\n",
        seed=7,
    ),
    Mutant(
        name="call every reading in doubt a duplicate",
        file="daemon/pipeline/assembly/triggers.py",
        text="        doubtful = (self._are_compared(block, origin, now) | is_vague) & ~self.sessions.is_new(origin)\n",
        to="        doubtful = np.zeros(len(block), bool)\n",
        plan="wrong-numbers-received-in-doubt",
    ),
    Mutant(
        name="believe a revised row over what the database lost",
        file="daemon/pipeline/revising.py",
        text='    np.minimum.at(rows["first_ns"], at, revised["first_ns"])\n',
        to="    rows[at] = revised\n",
        seed=200_000_466,
    ),
    Mutant(
        name="do not know that a trigger is in the dead letters",
        file="daemon/pipeline/placer.py",
        text="run, rejected, self._clock.now())\n",
        to="run, [], self._clock.now())\n",
        seed=200_000_067,
    ),
    Mutant(
        name="forget what was set aside before it is taken again",
        file="daemon/pipeline/assembly/outcomes.py",
        text="        if self.may_come_again and not",
        to="        if False and not",
        seed=200_000_801,
    ),
    Mutant(
        name="take a crate far behind for a restart",
        file="daemon/pipeline/assembly/progress.py",
        text='        is_later = block["time_ns"] > self._time_ns[instruments]\n',
        to="        is_later = np.ones(len(block), bool)\n",
        plan="far-behind-without-an-epoch",
    ),
    Mutant(
        name="do not compare what is older than the window",
        file="daemon/pipeline/assembly/triggers.py",
        text="        compared = self._are_compared(block, origin, now) & (run > 0)\n",
        to="        compared = np.zeros(len(block), bool)\n",
        seed=401675,
    ),
    Mutant(
        name="open triggers in a new run by what was taken before it",
        file="daemon/pipeline/assembly/routing.py",
        text="        apart = run.window.apart_from_all(block[old])\n",
        to="        apart = run.window.apart(block[old])\n",
        plan="late-from-before-the-restart-and-late-again",
        also=VAGUE,
    ),
    Mutant(
        name="forget when the run moved",
        file="daemon/pipeline/assembly/progress.py",
        text="        times = np.append(self._time_ns[self._are_active()], self._moved_ns)\n",
        to="        times = np.append(self._time_ns[self._are_active()], NEVER)\n",
        seed=200_000_549,
    ),
    Mutant(
        name="make a dead letter of what was committed without saying so",
        file="daemon/pipeline/committer/committer.py",
        text="            rest = await self._settle_held(blocks)\n",
        to="            rest = blocks\n",
        plan="committed-without-saying-so-then-rejected",
    ),
    Mutant(
        name="take for kept in the log what is dropped as settled before the switch",
        file="daemon/pipeline/intake/intake.py",
        text="                self._columns.settled_upto[joined.column] = stream.before = joined.resume\n",
        to="                self._columns.settled_upto[joined.column] = joined.resume\n",
        plan="settled-before-the-switch-and-not-synced",
    ),
    Mutant(
        name="believe that what was taken behind a gap of the intake's log is settled",
        file="daemon/pipeline/intake/replay.py",
        text="                    await self._note_doubt()  # a crash while",
        to="                    pass  # a crash while",
        seed=200_000_372,
    ),
    Mutant(
        name=VAGUE,
        file="daemon/pipeline/assembly/triggers.py",
        text="(self._are_compared(block, origin, now) | is_vague)",
        to="self._are_compared(block, origin, now)",
        seed=200_000_019,
    ),
    Mutant(
        name="open two triggers of a block in one place",
        file="daemon/pipeline/assembly/triggers.py",
        text="run.window.each_in_its_place(new[~run.window.are_behind(new)])",
        to="new[~run.window.are_behind(new)]",
        plan="two-of-a-block-a-window-apart",
    ),
    Mutant(
        name="number a run on from those that are open",
        file="daemon/pipeline/assembly/open_runs.py",
        text="max([self._forgotten, self._highest,",
        to="max([self._highest,",
        plan="restarted-after-going-back-to-a-run",
    ),
    Mutant(
        name="believe what a dead letter says of an earlier trigger",
        file="daemon/pipeline/dead_letters/retrying.py",
        text="        return replace(whole, revised=rows[at])\n",
        to="        return whole\n",
        plan="late-letter-and-late-again-on-another-host",
    ),
    Mutant(
        name="retry what came late for a trigger that the database lost",
        file="daemon/pipeline/dead_letters/retrying.py",
        text="        if not is_there.all():\n",
        to="        if not is_there.all():\n            return whole\n",
        plan="late-letter-whose-trigger-the-database-lost",
    ),
    Mutant(
        name="retry what came late without seeing whether it is there",
        file="daemon/pipeline/dead_letters/retrying.py",
        text="        if not is_new.all():\n",
        to="        if False:\n",
        plan="late-letter-that-another-host-stored",
    ),
    Mutant(
        name="retry dead letters in a run that is another epoch's",
        file="daemon/pipeline/dead_letters/retrying.py",
        text="            if not may_have(epoch, run, own, others):\n",
        to="            if False:\n",
        plan="dead-letter-whose-run-another-host-gave-away",
    ),
    Mutant(
        name="begin in the run that dead letters have for an epoch, and the database has not",
        file="daemon/pipeline/recovery/recovery.py",
        text="        return all(may_have(epoch, run, own, in_store.others) for epoch, run in rows if epoch)\n",
        to="        return True\n",
        plan="epoch-of-dead-letters-that-another-host-gave-another-run",
    ),
    Mutant(
        name="have two rows of a trigger that two dead letters close",
        file="daemon/pipeline/placing.py",
        text='    every = every[np.unique(every["trigger"], return_index=True)[1]]\n',
        to='    every = every[np.argsort(every["trigger"], kind="stable")]\n',
        seed=200_000_078,
    ),
    Mutant(
        name="do not ask the database which dead letters it took last",
        file="daemon/pipeline/dead_letters/folder.py",
        text="        for letter in [letter for letter in self.to_retry if letter.id in ids]:\n",
        to="        for letter in []:\n",
        plan="retried-and-killed-before-it-knows",
    ),
    Mutant(
        name="commit more dead letters before those that were committed are removed",
        file="daemon/pipeline/dead_letters/folder.py",
        text='        self._noted = replace(position, state=b"")\n        await self.note()\n',
        to='        self._noted = replace(position, state=b"")\n',
        plan="retried-and-killed-before-it-knows",
    ),
    Mutant(
        name="go on after half a step",
        file="daemon/core/supervision/fail_stop.py",
        text="    if _ends and not _is_of(error, errors):\n",
        to="    if False:\n",
        seed=3,
        mix=RESTARTS,
    ),
    Mutant(
        name="forget an announced restart at a start",
        file="daemon/pipeline/announced.py",
        text="            if after_run is None or begun <= after_run:\n",
        to="            if False:\n",
        seed=50005,
        mix=RESTARTS,
    ),
    Mutant(
        name="follow an announced restart at each start",
        file="daemon/pipeline/announced.py",
        text="            if after_run is None or begun <= after_run:\n",
        to="            if True:\n",
        seed=50013,
        mix=RESTARTS,
    ),
    Mutant(
        name="announce a restart behind all that the intake's log has",
        file="daemon/pipeline/intake/replay.py",
        text="                while received.number > announced.next_place(self._group):\n",
        to="                while False:\n",
        seed=50007,
        mix=RESTARTS,
    ),
    Mutant(
        name="number the records of an empty intake's log from 1 on behind an announcement",
        file="daemon/pipeline/intake/opening.py",
        text="        log.next = max(log.next, after_record + 1)\n",
        to="        pass\n",
        seed=50053,
        mix=RESTARTS,
    ),
    Mutant(
        name="go on behind what the journal cannot read again",
        file="daemon/pipeline/intake/replay.py",
        text="        self._check_all_read(received.number)\n",
        to="",
        plan="a-sector-goes-bad-in-an-outage",
    ),
    Mutant(
        name="do not see that the last of the journal cannot be read again",
        file="daemon/pipeline/intake/replay.py",
        text="            self._check_all_read(self._keeper.next)\n",
        to="",
        plan="the-last-of-a-session-goes-bad-in-an-outage",
    ),
)


class NoSuchText(Exception):
    """The text of a mutant is not in its file, or several times: the sources have changed."""


def copy_with(mutant: Mutant | None, folder: Path) -> None:
    """Copy the sources, changed."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so.lock"))
        elif source.exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
    for each in MUTANTS if mutant is not None else ():
        if each.name in (mutant.name, mutant.also):
            _change(each, folder / each.file)


def _change(mutant: Mutant, path: Path) -> None:
    before = path.read_text()
    if before.count(mutant.text) != 1:
        raise NoSuchText(f"{mutant.name}: {mutant.file} has its text {before.count(mutant.text)} times")
    path.write_text(before.replace(mutant.text, mutant.to))


def run(mutant: Mutant, seeds: int, jobs: int, skip: set[int]) -> str | None:
    """Run seeds against a mutant; return the first finding, None where there is none.

    skip: seeds that have findings without any mutant, to which those found on the way are added.
    """
    with tempfile.TemporaryDirectory(prefix="triggerlog-mutant-") as name:
        copy_with(mutant, Path(name))
        if mutant.plan is not None and (told := _finding_of(Path(name), mutant.plan)) is not None:
            return told
        noted = [] if mutant.seed is None else [f"--from {mutant.seed} --seeds 1 --jobs 1 --mix {mutant.mix}"]
        for arguments in (*noted, f"--seeds {seeds} --jobs {jobs} --mix {mutant.mix}"):
            while (found := _first_finding(Path(name), arguments, skip)) is not None:
                if not run_seed(int(found[1]), mix=mutant.mix).findings:
                    return found[0]
                skip.add(int(found[1]))
        return None


def _simulate(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


def _finding_of(tree: Path, plan: str) -> str | None:
    done = _simulate(tree, f"tests/simulation/plans/{plan}.json")
    found = re.search(r"^  -> (.*)", done.stdout, re.MULTILINE)
    if done.returncode and found is None:
        raise RuntimeError(f"{tree}: {done.stdout}{done.stderr}")
    return None if found is None else f"plan {plan}: {found[1]}"


def _first_finding(tree: Path, arguments: str, skip: set[int]) -> re.Match[str] | None:
    done = _simulate(tree, *f"--most 1 --shrink 0 {arguments}".split(), "--skip", *map(str, sorted(skip)))
    if done.returncode == 0:
        return None
    found = re.search(r"^seed (\d+): .*", done.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{tree}: {done.stdout}{done.stderr}")
    return found


def main() -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="those to run, by a part of their names; all when left out")
    parser.add_argument("--seeds", type=int, default=1000, help="how many are run at most against each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    arguments = parser.parse_args()
    status, skip = 0, set[int]()
    for mutant in MUTANTS:
        if arguments.names and not any(name in mutant.name for name in arguments.names):
            continue
        finding = run(mutant, arguments.seeds, arguments.jobs, skip)
        say(f"{mutant.name}: {finding[:200] if finding else f'not found by {arguments.seeds} seeds'}")
        status |= finding is None
    return status


if __name__ == "__main__":
    sys.exit(main())
