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


UNCOMPARED = "take what was late for a double of what is in its place without comparing them"
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
        plan="folder-made-before-the-start-and-not-synced",
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
        plan="an-asynchronous-database-loses-what-it-has",
    ),
    Mutant(
        name="begin again with numbers that were given out before",
        file="daemon/pipeline/pipeline.py",
        text="after=max(self._backlog.last, found.sequence))\n",
        to="after=found.sequence)\n",
        seed=3,
    ),
    Mutant(
        name="believe that what was closed before it begins again is safe",
        file="daemon/pipeline/intake/intake.py",
        text="        self.stretches.begin_again(upto)\n",
        to="",
        seed=3,
    ),
    Mutant(
        name="end without writing what was not old enough to be written",
        file="daemon/pipeline/log/keeper.py",
        text="if is_ended or self._waiting_bytes >= WRITTEN_FROM",
        to="if self._waiting_bytes >= WRITTEN_FROM",
        seed=2,
    ),
    Mutant(
        name="do not know in what the log holds what is a dead letter",
        file="daemon/pipeline/assembly/screen.py",
        text=" | self._outcomes.receipts.are_promised(origin)\n",
        to="\n",
        seed=2,
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
        plan="goodbye-while-the-intake-holds-the-session",
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
        name="believe a revised row whose trigger the database lost",
        file="daemon/pipeline/revising.py",
        text="*(block.ledger for block in blocks)])\n",
        to="*(np.concatenate([block.ledger, block.revised]) for block in blocks)])\n",
        plan="revised-and-its-trigger-lost",
    ),
    Mutant(
        name="believe a revised row over what the database lost",
        file="daemon/pipeline/revising.py",
        text='    np.minimum.at(rows["first_ns"], at, revised["first_ns"])\n',
        to="    rows[at] = revised\n",
        plan="a-revised-row-over-what-the-database-lost",
    ),
    Mutant(
        name="do not know that a trigger is in the dead letters",
        file="daemon/pipeline/placer.py",
        text="run, rejected, self._clock.now())\n",
        to="run, [], self._clock.now())\n",
        plan="late-for-a-rejected-trigger-after-a-start",
    ),
    Mutant(
        name="forget what was set aside before it is taken again",
        file="daemon/pipeline/assembly/outcomes.py",
        text="        if self.may_come_again and not",
        to="        if self.was_acknowledged and not",
        plan="ahead-and-held-when-all-was-taken-again",
    ),
    Mutant(
        name="take what is held twice though it became a dead letter",
        file="daemon/pipeline/assembly/screen.py",
        text="            wanted = self.without_letters(*stray, now)\n",
        to="            wanted = stray\n",
        plan="held-twice-and-a-dead-letter",
    ),
    Mutant(
        name="forget that a session is in doubt before a closed block says so",
        file="daemon/pipeline/assembly/sessions.py",
        text=" and not self._is_doubted[column]:\n",
        to=":\n",
        plan="taken-again-before-its-sender-came-back",
    ),
    Mutant(
        name="settle each block of a step by itself",
        file="daemon/pipeline/assembly/receipts.py",
        text="        self._closed += 1\n",
        to="        self._closed += 1\n        self.end_step()\n",
        plan="half-of-a-step-committed-and-the-power-cut",
    ),
    Mutant(
        name="have the time prove again where a late reading belongs",
        file="daemon/pipeline/placing.py",
        text="        odd &= ~belong\n",
        to="        pass\n",
        plan="late-with-a-wrong-clock-and-revised-again",
    ),
    Mutant(
        name="take a crate far behind for a restart",
        file="daemon/pipeline/assembly/progress.py",
        text='        is_later = block["time_ns"] > self._time_ns[instruments]\n',
        to="        is_later = np.ones(len(block), bool)\n",
        plan="far-behind-without-an-epoch",
    ),
    Mutant(
        name="take for new what another daemon may have taken of the intake's log",
        file="daemon/pipeline/intake/replay.py",
        text="            self._pipeline.doubt(origin)\n",
        to="",
        plan="received-and-stored-by-another-host",
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
        name="take the clocks of all instruments for wrong that are ahead of the node's",
        file="daemon/pipeline/assembly/progress.py",
        text="        now_ns = max(utc_ns, int(np.partition(times, len(times) // 2)[len(times) // 2]))\n",
        to="        now_ns = utc_ns\n",
        plan="behind-the-front-and-the-nodes-clock-behind",
    ),
    Mutant(
        name="forget when the run moved",
        file="daemon/pipeline/assembly/progress.py",
        text="        times = np.append(self._time_ns[self._are_active()], self._moved_ns)\n",
        to="        times = np.append(self._time_ns[self._are_active()], NEVER)\n",
        plan="behind-a-jump-without-an-epoch",
    ),
    Mutant(
        name="make a dead letter of what was committed without saying so",
        file="daemon/pipeline/committer/committer.py",
        text="            rest = await self._settle_held(blocks)\n",
        to="            rest = blocks\n",
        plan="committed-without-saying-so-then-rejected",
    ),
    Mutant(
        name="open a trigger in the place of a newer one",
        file="daemon/pipeline/assembly/triggers.py",
        text="                new = new[~run.window.are_behind(new)]\n",
        to="                pass\n",
        plan="a-window-behind-what-another-host-closed",
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
        plan="behind-a-gap-of-the-intake-and-killed-again",
    ),
    Mutant(
        name=VAGUE,
        file="daemon/pipeline/assembly/triggers.py",
        text="(self._are_compared(block, origin, now) | is_vague)",
        to="self._are_compared(block, origin, now)",
        plan="two-runs-in-a-trigger-without-an-epoch",
    ),
    Mutant(
        name="compare what came twice with a trigger as it was before the block",
        file="daemon/pipeline/assembly/triggers.py",
        text="            run.window.span(block[keep])",
        to="            pass",
        plan="a-late-reading-and-one-of-the-next-run",
    ),
    Mutant(
        name="go on without the note that what the intake's log holds is in doubt",
        file="daemon/pipeline/intake/replay.py",
        text="                is_told = True\n                await asyncio.sleep(AGAIN_S)\n",
        to="                return\n",
        plan="a-doubt-that-cannot-be-noted",
    ),
    Mutant(
        name="forget which run has what may have come before",
        file="daemon/pipeline/assembly/routing.py",
        text="            before[again] |= run.window.has(block[again])\n",
        to="            pass\n",
        plan="half-of-the-instruments-begin-again-below-the-first",
    ),
    Mutant(
        name="open two triggers of a block in one place",
        file="daemon/pipeline/assembly/triggers.py",
        text="            new = run.window.each_in_its_place(new)\n",
        to="",
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
        name="set aside what was compared while the database fell back",
        file="daemon/pipeline/committer/committer.py",
        text="            await self._transactions.rehearse([nothing_of(waiting.block)], [waiting])\n",
        to="            pass\n",
        plan="compared-while-the-database-fell-back",
    ),
    Mutant(
        name="place what is doubtful before what was late",
        file="daemon/pipeline/placing.py",
        text="if block.aside is None else [late, block.aside])",
        to="if block.aside is None else [block.aside, late])",
        plan="late-behind-a-doubtful-one-of-its-block",
        also=UNCOMPARED,
    ),
    Mutant(
        name=UNCOMPARED,
        file="daemon/pipeline/placer.py",
        text=" | (np.arange(len(aside.run)) < late)\n",
        to="\n",
        plan="late-behind-a-doubtful-one-of-its-block",
        also="place what is doubtful before what was late",
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
        name="remember no more dead letters than a window has triggers",
        file="daemon/pipeline/dead_letters/folder.py",
        text="        return self._blocks_of(letters[closing[-most] if len(closing) > most else 0 :])\n",
        to="        return self._blocks_of(letters[-most:])\n",
        plan="more-dead-letters-than-a-window-has",
        also="have two rows of a trigger that two dead letters close",
    ),
    Mutant(
        name="have two rows of a trigger that two dead letters close",
        file="daemon/pipeline/placing.py",
        text='    every = every[np.unique(every["trigger"], return_index=True)[1]]\n',
        to='    every = every[np.argsort(every["trigger"], kind="stable")]\n',
        plan="more-dead-letters-than-a-window-has",
        also="remember no more dead letters than a window has triggers",
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
        name="discard while a letter is being written",
        file="daemon/pipeline/dead_letters/folder.py",
        text="        async with self._turn:\n            if not self._index.pending:\n",
        to="        if True:\n            if not self._index.pending:\n",
        plan="rejected-while-a-discard-waits-for-its-turn",
    ),
    Mutant(
        name="tell of what is discarded without what was rejected while that waited",
        file="daemon/pipeline/dead_letters/folder.py",
        text=(
            "        async with self._turn:\n"
            "            if not self._index.pending:\n"
            "                return Amount()  # its folder may never have been made\n"
            "            gone, rejected = replace(self.amount), self.amount.readings - self.aside_readings\n"
        ),
        to=(
            "        gone, rejected = replace(self.amount), self.amount.readings - self.aside_readings\n"
            "        async with self._turn:\n"
        ),
        plan="rejected-while-a-discard-waits-for-its-turn",
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
        text="        self._see_all_read(received.number)\n",
        to="",
        plan="a-sector-goes-bad-in-an-outage",
    ),
    Mutant(
        name="do not see that the last of the journal cannot be read again",
        file="daemon/pipeline/intake/replay.py",
        text="            self._see_all_read(self._keeper.next)\n",
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
