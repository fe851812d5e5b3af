"""The data path of all groups: their intakes, pipelines and sources, from the first reading to the last commit."""

import asyncio
from collections.abc import Callable
from functools import partial

from backends.base import OtherJournal, SchemaMismatch, Store, StoreError
from backends.ending import done_before, end_tasks
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import durability_of, layout_of
from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed, cannot_listen
from daemon.core.outside import Outside
from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.announced import AnnouncedRuns
from daemon.pipeline.following import Following
from daemon.pipeline.intake import Intake, open_intake
from daemon.pipeline.pipeline import Pipeline
from daemon.pipeline.recovery import InStore, ask_store, recover_group, runs_of
from daemon.sources.base import Source
from daemon.sources.counters import Counters
from daemon.sources.kinds import make_source, tls_contexts
from schemas.config import Config

COMMIT_WITHIN_S = 20.0
"""How long the end of the service waits for the database. What is not committed then is reported, and senders that got
no acknowledgement still have it."""


class DataPath:
    """What takes readings, keeps them, and commits them.

    intakes: by group, from `open` on. pipelines: by group; empty before `go_on`. sources: empty before `start_sources`.
    superseded: called with a group's name when its store is at the position of another journal.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        store: Store,
        outside: Outside,
        events: Events,
        *,
        superseded: Callable[[str, OtherJournal], None],
    ) -> None:
        self.groups = {section.name: section.group() for section in loaded.config.groups}
        self.intakes: dict[str, Intake] = {}
        self.pipelines: dict[str, Pipeline] = {}
        self.sources: list[Source] = []
        self._config = loaded.config
        self._state_dir = loaded.state_dir
        self._tls = tls_contexts(loaded)
        self._store = store
        self._outside = outside
        self._events = events
        self._superseded = superseded
        self._announced = AnnouncedRuns(loaded.state_dir, outside, events)
        self._counters = {
            section.name: Counters(self.groups[section.name], section.trigger_bits, loaded.state_dir, outside, events)
            for section in loaded.config.groups
            if section.trigger_bits is not None
        }
        self._following: dict[str, Following] = {}
        self._committing: list[asyncio.Task[None]] = []

    @fail_stop(CommandFailed)
    async def open(self) -> None:
        """Open the intakes: from now on sources can start, whether the store answers or not."""
        await self._announced.load()
        for counters in self._counters.values():
            await counters.load()
        for name, group in self.groups.items():
            self.intakes[name] = await open_intake(
                group,
                self._config,
                self._state_dir,
                self._events,
                outside=self._outside,
                after_record=self._announced.last_record(name),
            )
            self.intakes[name].start()

    @fail_stop(StoreError, CommandFailed, OSError)
    async def ask_store(self) -> dict[str, InStore]:
        """What the store has of each group; raises what `daemon.pipeline.recovery.ask_store` does."""
        return {name: await ask_store(self._store, group, self._config) for name, group in self.groups.items()}

    def refuse(self, mismatch: SchemaMismatch) -> str:
        """Let groups that the database refuses take nothing more; return what to do with what they have taken."""
        ways = []
        for name in mismatch.groups:
            intake = self.intakes[name]
            way = _way_out(name, intake.kept) if intake.kept else ""
            ways.append(way)
            intake.refuse(f"{mismatch}{way}")
        return "".join(ways)

    @fail_stop(CommandFailed)
    async def start_sources(self) -> None:
        """Take readings from now on.

        Raises:
            CommandFailed: an address is taken.
        """
        intakes = self.intakes | {name: counters.into(self.intakes[name]) for name, counters in self._counters.items()}
        for index, section in enumerate(self._config.sources):
            source = make_source(section, intakes, self._events, self._tls[index])
            try:
                await source.start()
            except OSError as error:
                at = section.listening
                assert at is not None, "one that does not listen raises none"
                raise cannot_listen(f"sources[{index}]", at.host, at.port, error) from None
            self.sources.append(source)
        self._events.taking_readings()

    @fail_stop(CommandFailed, StoreError, OSError)
    async def go_on(
        self,
        in_store: dict[str, InStore],
        tasks: asyncio.TaskGroup,
        stop: asyncio.Event,
        *,
        availability_changed: Callable[[], None],
        made: Callable[[], None],
    ) -> bool:
        """Make the pipelines, and let what the logs hold go on; False when `stop` came first.

        availability_changed: see `Pipeline`. made: called when the pipelines are there, before anything is put in.
        """
        for intake in self.intakes.values():
            intake.refuse(None)
        if await done_before(stop, self._make_pipelines(in_store, availability_changed)) is None:
            return False
        made()
        for name, following in self._following.items():
            self._committing.append(tasks.create_task(following.run(), name=f"committer {name}"))
        return await done_before(stop, self._caught_up()) is not None

    @fail_stop()
    async def _caught_up(self) -> bool:
        for following in self._following.values():
            await following.caught_up.wait()
        return True

    async def announce_run(self, epoch: int) -> dict[str, int | None]:
        """Announce a restart of the timing system to all groups; see `AnnouncedRuns.announce`."""
        return await self._announced.announce(
            epoch, {name: intake for name, intake in self.intakes.items() if not intake.group.reports}
        )

    @fail_stop()
    async def stop_taking(self) -> None:
        """Take nothing more, and close the open triggers."""
        for source in self.sources:
            await source.stop()
        for counters in self._counters.values():
            await counters.close()
        self._events.taking_no_more()
        for following in self._following.values():
            following.end()

    @fail_stop(OSError)
    async def finish(self) -> None:
        """Commit what is here, as far as the database lets it, and close pipelines and logs."""
        if self._committing:
            _, late = await asyncio.wait(self._committing, timeout=COMMIT_WITHIN_S)
            await end_tasks(*late)
        for pipeline in self.pipelines.values():
            await pipeline.close(COMMIT_WITHIN_S)
        # Together: each may have to wait for the disk, and all of them are to get as far as they can.
        await asyncio.gather(*(intake.end() for intake in self.intakes.values()))

    @fail_stop()
    async def close_sources(self) -> None:
        """Send the last acknowledgements, and end the connections."""
        for source in self.sources:
            await source.close()

    @fail_stop()
    def change(self, config: Config) -> None:
        """Take over what of a configuration can change while the daemon runs."""
        self._config = config
        for pipeline in self.pipelines.values():
            pipeline.change(config)
        for intake in self.intakes.values():
            intake.change(config)
        for source, section in zip(self.sources, config.sources, strict=True):
            source.change(section)

    def parts(self) -> list[Part]:
        """What has to move while the daemon runs, for the watchdog."""
        pipelines = (part for each in (self.pipelines, self.intakes) for way in each.values() for part in way.parts())
        return [*pipelines, *(part for source in self.sources for part in source.parts())]

    @fail_stop(CommandFailed, OSError)
    async def _make_pipelines(self, in_store: dict[str, InStore], availability_changed: Callable[[], None]) -> bool:
        recovered = {
            section.name: await recover_group(
                in_store[section.name],
                self.groups[section.name],
                self._config,
                self._state_dir,
                self._events,
                outside=self._outside,
                log=self.intakes[section.name].log,
                in_log=self.intakes[section.name].found_readings,
            )
            for section in self._config.groups
        }
        runs = runs_of(recovered.values())
        for section in self._config.groups:
            self.pipelines[section.name] = Pipeline(
                self.groups[section.name],
                self._config,
                self._store,
                layout=layout_of(section, self._config),
                durability=durability_of(section, self._config),
                runs=runs,
                recovered=recovered[section.name],
                events=self._events,
                clock=self._outside.clock,
                availability_changed=availability_changed,
                superseded=partial(self._superseded, section.name),
                kept=self.intakes[section.name].as_kept,
                losses=self.intakes[section.name].losses,
            )
        for name, pipeline in self.pipelines.items():
            intake = self.intakes[name]
            if intake.log is not None and recovered[name].was_elsewhere:
                # A log whose id the disk does not take has another one at the next start, which doubts again.
                await intake.doubt(waits=not intake.log.has_deferred)
            self._following[name] = Following(intake, pipeline, self._announced, self._store, self._config)
        return True


def _way_out(group: str, readings: int) -> str:
    """Say how readings are stored that only the refused configuration fits, and that may be acknowledged."""
    return (
        f"; {readings:,} readings of group {group} that came with this configuration are in the journal, and fit"
        " no other: to store them, start the daemon with it and another `schema` until `triggerlog reconcile` finds"
        " none waiting, and only then set `channels` and `schema` to what is there, where they count as lost"
    )
