"""Answers valid at a key of a tag: from memory where that is known to be true, and otherwise from the database."""

import asyncio
import logging
import mmap
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b

import orjson

from backends.base import StoreError, StoreUnavailable
from backends.conditions import ConditionsStore
from backends.ending import end_tasks
from daemon.conditions.content import BODIES_SHARE, Bodies, Body, KeptTags, TagContent, TooLarge, load
from daemon.conditions.contract import as_objects, flat_row, tag_row
from schemas.conditions.intervals import END, GlobalTag, Key, TagRevision, TagStatus
from schemas.conditions.rules import ConditionsRefused

# --- freshness -------------------------------------------------------------------------------------------------------
# An answer given at a time t is true for some moment after t - OLDEST_S, or after its question came: the revisions that
# it was checked against were asked for after that, and after everything that the processes of this server had changed.
# The latter holds for a question that had to wait. It waits for two questions to the database at most, however slow
# that is, and however often something changes meanwhile. While nothing is asked, the database is not asked either.

EVERY_S = 0.5
"""Revisions that are older are asked for again, beside the answers."""

OLDEST_S = 1.0
"""Revisions that are older prove nothing: the answer waits for newer ones."""

GIVE_UP_S = 2.0
"""The database is away when it does not tell its revisions within this time."""

Revisions = dict[str, TagRevision]


class Writes:
    """Times at which each process of the server last changed something, by a clock that they share.

    Args:
        memory: eight bytes for each process, which all of them have mapped.
        number: of this process.
    """

    def __init__(self, memory: mmap.mmap, number: int = 0) -> None:
        self._times = memoryview(memory).cast("d")
        self._number = number

    def note(self, now_s: float) -> None:
        """Note a change by this process."""
        self._times[self._number] = now_s

    @property
    def last_s(self) -> float:
        """The last of them; 0 where there is none yet."""
        return max(self._times)


class Freshness:
    """The revisions of all tags, by name.

    Args:
        ask: the database for the revisions.
        changed: called with new ones when they have come.
        clock: seconds that only grow.
        writes: revisions that were asked for before the last of them lack what it changed.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[Sequence[TagRevision]]],
        changed: Callable[[Revisions], None],
        clock: Callable[[], float],
        writes: Writes,
    ) -> None:
        self._ask, self._changed, self._clock, self._writes = ask, changed, clock, writes
        self._found: Revisions = {}
        self._asked = float("-inf")  # when the question was asked that `_found` answers
        self._failed = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self.problem: str | None = None

    @property
    def age_s(self) -> float:
        """How old the revisions are; infinite where they are known to lack something."""
        return float("inf") if self._asked < self._writes.last_s else self._clock() - self._asked

    def now(self) -> Revisions | None:
        """The revisions, if they are new enough; where they soon will not be they are asked for again, beside this."""
        age_s = self.age_s
        if age_s > EVERY_S:
            self.refresh()
        return self._found if age_s <= OLDEST_S else None

    async def fresh(self) -> Revisions:
        """The revisions, new enough.

        Raises:
            StoreUnavailable: the database does not tell them.
        """
        came = self._clock()
        while (found := self.now()) is None and self._asked < came:
            if self._asking is None:  # it has just failed
                raise StoreUnavailable(self.problem or "the database does not answer")
            # Several wait for the same answer, and one of them may be gone before it comes.
            await asyncio.shield(self._asking)
        return self._found if found is None else found

    def wrote(self) -> None:
        """Take note that this process has changed something: only revisions that are asked for from now on have it."""
        self._writes.note(self._clock())

    def refresh(self) -> None:
        """Ask for the revisions, unless that is under way, or failed lately and nothing was changed since."""
        is_new = self._clock() - self._failed >= EVERY_S or self._failed < self._writes.last_s
        if self._asking is None and is_new:
            self._asking = asyncio.create_task(self._ask_now())

    async def _ask_now(self) -> None:
        began = self._clock()
        try:
            async with asyncio.timeout(GIVE_UP_S):
                found = await self._ask()
        except TimeoutError:
            self._fail(f"the database has not answered within {GIVE_UP_S:g} s")
        except StoreError as error:
            self._fail(str(error))
        else:
            self._found, self._asked, self.problem = {each.name: each for each in found}, began, None
            self._changed(self._found)
        finally:
            self._asking = None

    def _fail(self, problem: str) -> None:
        self._failed, self.problem = self._clock(), problem


log = logging.getLogger(__name__)

RELOAD_SHARE = 10
"""A tag whose revision grows is loaded again after ten times the time that loading it took, at the earliest."""

LEAST_RELOAD_S = 1.0


ANSWER_WITHIN_S = 10.0
"""A question to the database that takes longer is given up."""


@dataclass(slots=True)
class Answer:
    """An answer.

    etag: the same for the same body, another one for another. is_final: it can never become another one. is_memory:
    whether the database was spared. is_kept: whether the body was in memory as it is. age_s: how old it may be, where
    the database is away and it is not known to be true any more.
    """

    body: Body
    etag: str
    is_final: bool = False
    is_memory: bool = True
    is_kept: bool = False
    age_s: float | None = None


UNKNOWN = Answer(Body(b"[]"), "unknown")
"""What is valid in a tag that is not there: the reference does not refuse it either."""


@dataclass(slots=True, frozen=True)
class _TagList:
    """revisions: that it is true for."""

    revisions: Revisions
    body: Body
    etag: str
    true_at_s: float


class Reads:
    """Answers the questions that jobs ask.

    Args:
        store: asked for what is not in memory.
        memory_bytes: for tags and whole answers.
        tell: records what an operator should know.
        clock: seconds that only grow, the same for all processes of the server.
        writes: of these processes; left out where there is one.
    """

    def __init__(
        self,
        store: ConditionsStore,
        memory_bytes: int,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        writes: Writes | None = None,
    ) -> None:
        self._store = store
        self._tell = tell
        self._clock = clock
        self.bodies = Bodies(memory_bytes // BODIES_SHARE)
        self.tags = KeptTags(memory_bytes - memory_bytes // BODIES_SHARE, clock)
        self.freshness = Freshness(store.revisions, self._forget_changed, clock, writes or Writes(mmap.mmap(-1, 8)))
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, float] = {}
        self._too_large: dict[int, int] = {}  # revision of each tag that does not fit, by its id
        self._tag_list: _TagList | None = None

    async def valid_at(self, tag: str, key: Key, *, is_dict: bool = False) -> Answer:
        """What is valid at a key; nothing for an unknown tag.

        Raises:
            StoreUnavailable: it is not known, and the database does not tell it.
        """
        content = self.tags.get(tag)
        found = self.freshness.now()
        # What is frozen stays true whether or not the database answers. It is asked all the same: somebody may have
        # replaced the whole schema.
        if content is not None and content.revision.status is TagStatus.FROZEN:
            return self._from_memory(content, key, is_dict)
        revision = (await self.freshness.fresh() if found is None else found).get(tag)
        if revision is None:
            return UNKNOWN
        if content is not None and content.revision == revision:
            return self._from_memory(content, key, is_dict)
        if revision.status is not TagStatus.UNLOCKED:
            self._load_soon(revision)
        return await self._from_store(tag, key, is_dict)

    async def list_tags(self) -> Answer:
        """All tags, as the contract lists them; where the database is away those that were last known, with their age.

        Clients look for the name of their tag here before they ask what is valid: without it they would not ask for a
        frozen one, which is still answered then.

        Raises:
            StoreUnavailable: they were never known.
        """
        known = self._tag_list
        try:
            revisions = self.freshness.now() or await self.freshness.fresh()
            if known is not None and known.revisions == revisions:
                self._tag_list = replace(known, true_at_s=self._clock())
                return Answer(known.body, known.etag, is_kept=True)
            asked_s = self._clock()
            async with _within_time():
                tags = await self._store.tags()
        except StoreUnavailable:
            if known is None:
                raise
            return Answer(known.body, known.etag, is_kept=True, age_s=self._clock() - known.true_at_s)
        rows = orjson.dumps([tag_row(each) for each in tags])
        # Their own: tags that came since `revisions` were asked for, and go again, would leave those as they were.
        revisions = {each.name: _revision(each) for each in tags}
        self._tag_list = _TagList(revisions, Body(rows), blake2b(rows, digest_size=12).hexdigest(), asked_s)
        return Answer(self._tag_list.body, self._tag_list.etag, is_memory=False)

    def compressed(self, answer: Answer) -> bytes | None:
        """The body of an answer, compressed; None where that is not worth it: it was asked for the first time."""
        return answer.body.compressed() if answer.is_kept else None

    def wrote(self) -> None:
        """Take note of a change: each process of the server checks its memory before it answers from it again."""
        self.freshness.wrote()

    async def close(self) -> None:
        """End what is being loaded."""
        await end_tasks(*self._loading.values())

    # --- from memory, from the database ------------------------------------------------------------------------------

    def _from_memory(self, content: TagContent, key: Key, is_dict: bool) -> Answer:
        revision, position = content.revision, content.breakpoints.position(key)
        kept = (revision.id, revision.revision, revision.updated_ns, position, is_dict)
        body = self.bodies.get(kept)
        is_kept = body is not None
        if body is None:
            plain = content.body(position)
            body = Body(as_objects(plain) if is_dict else plain)
            self.bodies.keep(kept, body)
        bounds = content.breakpoints.key(position), content.breakpoints.key(position + 1)
        is_final = revision.status is TagStatus.FROZEN
        return Answer(body, _etag(revision, *bounds, is_dict), is_final=is_final, is_kept=is_kept)

    async def _from_store(self, tag: str, key: Key, is_dict: bool) -> Answer:
        try:
            async with _within_time():
                revision, valid = await self._store.valid_at(tag, key)
        except ConditionsRefused:  # it was removed just now
            return UNKNOWN
        plain = orjson.dumps([flat_row(each) for each in valid])
        body = Body(as_objects(plain) if is_dict else plain)
        # Within a revision these bounds tell answers apart: of two keys with different answers the later one has a
        # later start, or the earlier one an end before it. One with nothing begins where none does that has something.
        begin = max((each.interval.start for each in valid), default=END)
        end = min((each.interval.end for each in valid), default=END)
        is_final = revision.status is TagStatus.FROZEN
        return Answer(body, _etag(revision, begin, end, is_dict), is_final=is_final, is_memory=False)

    # --- what is in memory -------------------------------------------------------------------------------------------

    def _forget_changed(self, revisions: Revisions) -> None:
        for content in self.tags.contents():
            if revisions.get(content.revision.name) != content.revision:
                self.tags.forget(content.revision.name)

    def _load_soon(self, revision: TagRevision) -> None:
        name = revision.name
        if name in self._loading or self._clock() < self._not_before.get(name, 0.0):
            return
        if self._too_large.get(revision.id) != revision.revision:
            self._loading[name] = asyncio.create_task(self._load(revision), name=f"load {name}")

    async def _load(self, revision: TagRevision) -> None:
        name, began_s, room = revision.name, self._clock(), self.tags.room(revision.name)
        try:
            content = await load(self._store.content(name), room)
        except TooLarge:
            if room == self.tags.most_bytes:
                self._note_too_large(revision)
        except (StoreError, ConditionsRefused) as error:
            log.warning("tag %s is not loaded into memory: %s", name, error)
        else:
            if content.revision.status is not TagStatus.UNLOCKED:
                self.tags.keep(name, content)
        finally:
            del self._loading[name]
            self._not_before[name] = began_s + max(RELOAD_SHARE * (self._clock() - began_s), LEAST_RELOAD_S)

    def _note_too_large(self, revision: TagRevision) -> None:
        """Say it once of each tag, and do not try this revision again."""
        if revision.id not in self._too_large:
            mib = self.tags.most_bytes / 2**20
            self._tell(
                f"global tag {revision.name} does not fit in {mib:,.0f} MiB of memory, and is answered from the "
                "database; raise conditions.memory_mib"
            )
        self._too_large[revision.id] = revision.revision


@asynccontextmanager
async def _within_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            yield
    except TimeoutError:
        raise StoreUnavailable(f"the database has not answered within {ANSWER_WITHIN_S:g} s") from None


def _revision(of: GlobalTag) -> TagRevision:
    return TagRevision(id=of.id, name=of.name, status=of.status, revision=of.revision, updated_ns=of.updated_ns)


def _etag(revision: TagRevision, begin: Key, end: Key, is_dict: bool) -> str:
    """Of an answer: the tag, its revision and its time, the keys between which it holds, whether rows are objects."""
    bounds = f"{begin.major}.{begin.minor}-{end.major}.{end.minor}"
    return f"{revision.id}-{revision.revision}-{revision.updated_ns}-{bounds}{'-dict' if is_dict else ''}"
