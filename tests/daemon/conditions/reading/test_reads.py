"""What is answered from memory, for how long it is believed, and what is said of it to those between."""

import asyncio
import gzip
import json
import mmap
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from backends.base import StoreUnavailable
from daemon.conditions import reads
from daemon.conditions.clients import AGENT_LETTERS, Use, Uses
from daemon.conditions.reads import Freshness, Reads, Writes
from schemas.conditions.intervals import END, Key, ListContent, NewInterval, TagRevision, TagStatus, ValidAt
from tests.support.conditions import bpm
from tests.support.conditions_server import Served, fill, flat_rows, served, some_intervals
from tests.support.listening import eventually
from tests.support.memory.conditions import MemoryConditionsStore

AWAY = StoreUnavailable("it is switched off")


class Counted(MemoryConditionsStore):
    """A store that counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def valid_at(self, tag: str, key: Key) -> tuple[TagRevision, Sequence[ValidAt]]:
        self.asked.append("valid_at")
        return await super().valid_at(tag, key)

    async def revisions(self) -> Sequence[TagRevision]:
        self.asked.append("revisions")
        return await super().revisions()

    async def content(self, tag: str) -> AsyncIterator[TagRevision | ListContent]:
        self.asked.append("content")
        async for part in super().content(tag):
            yield part


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def rows_of(found: Reads, tag: str, major: int, minor: int = 0) -> list[Any]:
    answer = await found.valid_at(tag, Key(major, minor))
    rows: list[Any] = json.loads(answer.body.plain)
    return rows


async def in_memory(found: Reads, tag: str) -> None:
    """Ask until the tag is in memory."""
    await found.valid_at(tag, Key(0, 0))
    await eventually(lambda: not found._loading)
    assert (await found.valid_at(tag, Key(0, 0))).is_memory


async def test_a_locked_tag_is_answered_from_memory_as_from_the_database() -> None:
    store = Counted()
    await fill(store, "physics", types=7, intervals=60)
    found = Reads(store, 2**26, print)
    await in_memory(found, "physics")
    store.asked.clear()
    for major in range(0, 1_300, 7):
        expected = await flat_rows(store, "physics", Key(major, 0))
        store.asked.clear()
        assert await rows_of(found, "physics", major) == expected
        assert store.asked == []
    await found.close()


async def test_an_unlocked_tag_is_asked_of_the_database_each_time() -> None:
    store = Counted()
    await fill(store, "physics", types=2, intervals=10, status=TagStatus.UNLOCKED)
    found = Reads(store, 2**26, print)
    for _ in range(3):
        assert len(await rows_of(found, "physics", 10**6)) == 2
    assert (store.asked.count("valid_at"), store.asked.count("content")) == (3, 0)


async def test_revisions_are_asked_for_every_half_second_while_something_is_asked_and_never_otherwise() -> None:
    store, clock = Counted(), Clock()
    await fill(store, "physics", types=1, intervals=3)
    found = Reads(store, 2**26, print, clock)
    await in_memory(found, "physics")
    store.asked.clear()
    for _ in range(100):
        clock.now_s += 0.1
        await found.valid_at("physics", Key(1, 0))
        await asyncio.sleep(0.002)
    assert 12 <= store.asked.count("revisions") <= 20
    store.asked.clear()
    clock.now_s += 3600
    await asyncio.sleep(0.02)
    assert store.asked == []


async def test_what_another_process_of_the_server_wrote_is_answered_at_once() -> None:
    store, clock, memory = Counted(), Clock(), mmap.mmap(-1, 16)
    await fill(store, "physics", types=1, intervals=3)
    one, other = (Reads(store, 2**26, print, clock, Writes(memory, number)) for number in range(2))
    await in_memory(one, "physics")
    await one.list_tags()
    name = (await store.tag_lists("physics"))["type_000"]
    for major in (10**6, 10**7):
        clock.now_s += 0.001
        await store.insert({name: some_intervals([major], "new")})
        await store.add_tag(f"tag {major}", TagStatus.LOCKED)
        other.wrote()
        assert (await rows_of(one, "physics", major))[0][1] == f"new/{major}.json"
        assert f"tag {major}" in [each["name"] for each in json.loads((await one.list_tags()).body.plain)]
    await one.close()


async def test_a_tag_that_came_and_went_is_not_in_the_list_again() -> None:
    """The list is newer than the revisions that were asked for before it, and these are as they were afterwards."""
    store, clock = Counted(), Clock()
    found = Reads(store, 2**26, print, clock)
    await found.valid_at("nobody", Key(0, 0))
    await store.add_tag("short", TagStatus.UNLOCKED)
    assert b"short" in (await found.list_tags()).body.plain
    await store.remove_tag("short")
    found.wrote()
    assert (await found.list_tags()).body.plain == b"[]"


async def test_what_another_server_wrote_is_answered_after_a_second_at_most() -> None:
    store, clock = Counted(), Clock()
    await fill(store, "physics", types=1, intervals=3)
    found = Reads(store, 2**26, print, clock)
    await in_memory(found, "physics")
    name = (await store.tag_lists("physics"))["type_000"]
    await store.insert({name: some_intervals([10**6], "new")})
    clock.now_s += reads.OLDEST_S + 0.001
    assert (await rows_of(found, "physics", 10**6))[0][1] == "new/1000000.json"
    # And it is loaded again, beside.
    clock.now_s += 100
    await in_memory(found, "physics")
    assert (await rows_of(found, "physics", 10**6))[0][1] == "new/1000000.json"
    await found.close()


async def test_what_this_process_wrote_is_answered_at_once() -> None:
    store, clock = Counted(), Clock()
    await fill(store, "physics", types=1, intervals=3)
    found = Reads(store, 2**26, print, clock)
    await in_memory(found, "physics")
    name = (await store.tag_lists("physics"))["type_000"]
    clock.now_s += 0.001
    made = await store.add_interval(NewInterval(url="mine", start=Key(10**6, 0)))
    await store.attach_interval(name, made.id)
    found.wrote()
    assert (await rows_of(found, "physics", 10**6))[0][1] == "mine"
    await found.close()


async def test_an_answer_that_was_asked_before_an_order_does_not_prove_what_is_asked_after_it() -> None:
    """The revisions are under way while an order is carried out: they may be those from before it."""
    clock = Clock()
    answers: list[asyncio.Future[Sequence[TagRevision]]] = []

    async def ask() -> Sequence[TagRevision]:
        answers.append(asyncio.get_running_loop().create_future())
        return await answers[-1]

    def revision(number: int) -> TagRevision:
        return TagRevision(id=1, name="physics", status=TagStatus.LOCKED, revision=number, updated_ns=number)

    found = Freshness(ask, lambda _: None, clock, Writes(mmap.mmap(-1, 8)))
    before = asyncio.create_task(found.fresh())
    await eventually(lambda: len(answers) == 1)
    clock.now_s += 0.1
    found.wrote()
    clock.now_s += 0.1
    after = asyncio.create_task(found.fresh())
    await asyncio.sleep(0)
    answers[0].set_result([revision(1)])
    await eventually(lambda: len(answers) == 2)
    answers[1].set_result([revision(2)])
    # What was asked before the order may be answered with either.
    assert (await before)["physics"].revision == 1
    assert (await after)["physics"].revision == 2


async def test_a_question_is_answered_however_often_this_process_changes_something_meanwhile() -> None:
    async def ask() -> Sequence[TagRevision]:
        await asyncio.sleep(0.003)
        return []

    found = Freshness(ask, lambda _: None, time.monotonic, Writes(mmap.mmap(-1, 8)))

    async def write() -> None:
        while True:
            found.wrote()
            await asyncio.sleep(0.001)

    writing = asyncio.create_task(write())
    await asyncio.sleep(0.01)
    async with asyncio.timeout(60):
        assert await found.fresh() == {}
    writing.cancel()


async def test_a_question_is_answered_where_the_database_takes_longer_than_an_answer_may_be_old() -> None:
    clock, asked = Clock(), 0

    async def ask() -> Sequence[TagRevision]:
        nonlocal asked
        asked += 1
        clock.now_s += 1.5
        return []

    found = Freshness(ask, lambda _: None, clock, Writes(mmap.mmap(-1, 8)))
    async with asyncio.timeout(60):
        assert await found.fresh() == {}
    assert asked == 1
    clock.now_s += 0.1
    async with asyncio.timeout(60):
        await found.fresh()
    assert asked == 2


@pytest.mark.parametrize("status", [TagStatus.LOCKED, TagStatus.FROZEN])
async def test_without_the_database_what_is_frozen_is_answered_and_the_rest_for_a_second(status: TagStatus) -> None:
    store, clock = Counted(), Clock()
    await fill(store, "physics", types=2, intervals=3, status=status)
    found = Reads(store, 2**26, print, clock)
    await in_memory(found, "physics")
    listed = await found.list_tags()
    expected = await flat_rows(store, "physics", Key(50, 0))
    store.fail_with(AWAY)
    clock.now_s += 0.9
    assert await rows_of(found, "physics", 50) == expected
    clock.now_s += 3600
    if status is TagStatus.FROZEN:
        assert await rows_of(found, "physics", 50) == expected
    else:
        with pytest.raises(StoreUnavailable, match="switched off"):
            await found.valid_at("physics", Key(50, 0))
    stale = await found.list_tags()
    assert stale.body.plain == listed.body.plain
    assert stale.age_s is not None
    assert stale.age_s >= 3600
    assert found.freshness.problem == "it is switched off"
    store.fail_with(None)
    clock.now_s += reads.EVERY_S
    assert await rows_of(found, "physics", 50) == expected
    assert (await found.list_tags()).age_s is None
    assert found.freshness.problem is None
    await found.close()


async def test_a_database_that_is_away_is_not_asked_by_every_request() -> None:
    store, clock = Counted(), Clock()
    await fill(store, "physics", types=1, intervals=3)
    found = Reads(store, 2**26, print, clock)
    store.fail_with(AWAY)
    for _ in range(50):
        with pytest.raises(StoreUnavailable):
            await found.valid_at("physics", Key(1, 0))
    assert store.asked.count("revisions") == 1


async def test_a_frozen_tag_that_somebody_replaced_is_forgotten() -> None:
    store, clock = Counted(), Clock()
    await fill(store, "physics", types=1, intervals=3, status=TagStatus.FROZEN)
    found = Reads(store, 2**26, print, clock)
    await in_memory(found, "physics")
    await store.drop()
    clock.now_s += 1
    await found.valid_at("physics", Key(1, 0))
    await eventually(lambda: not len(found.tags))
    assert await rows_of(found, "physics", 1) == []


@pytest.mark.parametrize("status", [TagStatus.LOCKED, TagStatus.FROZEN])
async def test_a_tag_of_a_schema_that_was_made_again_is_another_one_under_the_same_numbers(status: TagStatus) -> None:
    store, clock = Counted(), Clock()
    await bpm(store, ("old", 0, None), status=status)
    found = Reads(store, 2**26, print, clock)
    await in_memory(found, "a")
    before, (known,), listed = await found.valid_at("a", Key(5, 0)), await store.revisions(), await found.list_tags()
    await store.drop()
    await store.create()
    await bpm(store, ("new", 0, None), status=status)
    (again,) = await store.revisions()
    assert (known.id, known.revision, known.status) == (again.id, again.revision, again.status)
    clock.now_s += 2
    await found.list_tags()
    after = await found.valid_at("a", Key(5, 0))
    assert b'"old"' in before.body.plain
    assert b'"new"' in after.body.plain
    await in_memory(found, "a")
    assert after.etag == (await found.valid_at("a", Key(5, 0))).etag != before.etag
    assert (await found.list_tags()).etag != listed.etag
    await found.close()


async def test_a_tag_that_does_not_fit_is_said_once_and_answered_from_the_database() -> None:
    store, told, clock = Counted(), list[str](), Clock()
    await fill(store, "physics", types=3, intervals=2_000)
    found = Reads(store, 2**19, told.append, clock)
    for _ in range(5):
        assert len(await rows_of(found, "physics", 10**6)) == 3
        await eventually(lambda: not found._loading)
        clock.now_s += 1000
    assert len(told) == 1
    assert "does not fit" in told[0]
    assert (store.asked.count("content"), len(found.tags)) == (1, 0)


async def test_the_tag_that_was_not_asked_for_longest_makes_room_and_none_that_is_asked_now() -> None:
    store, told, clock = Counted(), list[str](), Clock()
    for tag in ("a", "b", "c"):
        await fill(store, tag, types=1, intervals=2_000)
    alone = Reads(store, 2**26, print, clock)
    await in_memory(alone, "a")
    found = Reads(store, (3 * alone.tags.nbytes - 1_000) * 8 // 7, told.append, clock)

    async def kept() -> list[str]:
        await eventually(lambda: not found._loading)
        return [each.revision.name for each in found.tags.contents()]

    await in_memory(found, "a")
    clock.now_s += 100
    await in_memory(found, "b")
    clock.now_s += 1
    await found.valid_at("c", Key(1, 0))
    assert await kept() == ["b", "c"]
    await found.valid_at("a", Key(1, 0))
    assert await kept() == ["b", "c"]
    clock.now_s += 100
    await found.valid_at("a", Key(1, 0))
    assert await kept() == ["c", "a"]
    assert found.tags.nbytes <= found.tags.most_bytes
    assert told == []


async def test_bodies_that_are_asked_often_are_kept_and_others_go() -> None:
    store = Counted()
    await fill(store, "physics", types=5, intervals=500)
    found = Reads(store, 2**21, print)
    await in_memory(found, "physics")
    for major in range(0, 10_000, 3):
        await found.valid_at("physics", Key(major, 0))
        assert (await found.valid_at("physics", Key(5_000, 0))).is_kept or major == 0
    assert found.bodies.nbytes <= 2**21 // reads.BODIES_SHARE
    assert 50 < len(found.bodies) < 3_000
    await found.close()


# --- over HTTP -------------------------------------------------------------------------------------------------------


def query(tag: str, major: int, more: str = "") -> str:
    return f"payloadiovs/?gtName={tag}&majorIOV={major}&minorIOV=0{more}"


async def loaded(api: Served, tag: str) -> None:
    await in_memory(api.reads, tag)


async def test_an_etag_is_of_one_answer_and_comes_back_as_304() -> None:
    store = MemoryConditionsStore()
    await fill(store, "physics", types=3, intervals=20)
    async with served(store) as api:
        await loaded(api, "physics")
        seen: dict[str, bytes] = {}
        for major in range(420):
            for more in ("", "&shape=dict"):
                answer = await api.client.get(query("physics", major, more))
                etag = answer.headers["etag"]
                assert seen.setdefault(etag, answer.content) == answer.content
                again = await api.client.get(query("physics", major, more), headers={"if-none-match": f'"x", W/{etag}'})
                assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
                assert "content-type" not in again.headers
        assert len(seen) > 100
        other = await api.client.get(query("physics", 3), headers={"if-none-match": '"something else"'})
        assert other.status_code == 200


async def test_an_etag_from_the_database_tells_answers_apart_too() -> None:
    store = MemoryConditionsStore()
    await fill(store, "physics", types=3, intervals=20, status=TagStatus.UNLOCKED)
    name = (await store.tag_lists("physics"))["type_001"]
    timeline = await store.timeline(name)
    for start, end in list(zip(timeline.starts.tolist(), timeline.ends.tolist(), strict=True))[::3]:
        await store.remove_interval("physics", "type_001", Key(*start), Key(*end))
    async with served(store) as api:
        seen: dict[str, bytes] = {}
        for major in range(420):
            answer = await api.client.get(query("physics", major))
            assert seen.setdefault(answer.headers["etag"], answer.content) == answer.content
        assert len(set(seen.values())) == len(seen) > 30
        assert api.reads.tags.nbytes == 0


@pytest.mark.parametrize("status", [TagStatus.UNLOCKED, TagStatus.LOCKED])
async def test_an_etag_at_the_end_of_all_keys_is_not_that_of_an_interval_of_all_keys(status: TagStatus) -> None:
    store = MemoryConditionsStore()
    await bpm(store, ("x", 0, None), status=status)
    found = Reads(store, 2**26, print)
    first, last = [await found.valid_at("a", at) for at in (Key(0, 0), END)]
    assert (json.loads(last.body.plain), last.etag == first.etag) == ([], False)
    await found.close()


@pytest.mark.parametrize(
    ("status", "control"),
    [
        (TagStatus.UNLOCKED, "max-age=1"),
        (TagStatus.LOCKED, "max-age=1"),
        (TagStatus.FROZEN, "public, max-age=31536000, immutable"),
    ],
)
async def test_only_what_is_frozen_is_immutable(status: TagStatus, control: str) -> None:
    store = MemoryConditionsStore()
    await fill(store, "physics", types=1, intervals=3, status=status)
    async with served(store) as api:
        from_store = await api.client.get(query("physics", 5))
        await eventually(lambda: not api.reads._loading)
        from_memory = await api.client.get(query("physics", 5))
        assert from_store.headers["cache-control"] == from_memory.headers["cache-control"] == control
        assert from_store.content == from_memory.content
        assert (await api.client.get(query("nobody", 5))).headers["cache-control"] == "max-age=1"


async def test_an_answer_is_compressed_for_who_takes_it_so_once_it_is_popular() -> None:
    store = MemoryConditionsStore()
    await fill(store, "physics", types=40, intervals=3, status=TagStatus.FROZEN)
    async with served(store) as api:
        await loaded(api, "physics")
        asked = query("physics", 10**6)

        async def raw(encoding: str) -> tuple[bytes, str, str | None]:
            request = api.client.build_request("GET", asked, headers={"accept-encoding": encoding})
            answer = await api.client.send(request, stream=True)
            content = b"".join([part async for part in answer.aiter_raw()])
            await answer.aclose()
            return content, answer.headers["etag"], answer.headers.get("content-encoding")

        plain, etag, encoding = await raw("gzip")
        assert encoding is None
        packed, packed_etag, encoding = await raw("gzip, br")
        assert (encoding, gzip.decompress(packed)) == ("gzip", plain)
        assert packed_etag != etag
        assert len(packed) < len(plain) / 3
        for refused in ("identity", "gzip;q=0", "*;q=1, gzip; q=0.000", "gzip;q=0.5, identity"):
            assert await raw(refused) == (plain, etag, None), refused
        for known in (etag, packed_etag):
            again = await api.client.get(asked, headers={"if-none-match": known})
            assert again.status_code == 304


async def test_without_the_database_the_client_still_gets_what_is_frozen() -> None:
    store = MemoryConditionsStore()
    await fill(store, "frozen", types=2, intervals=3, status=TagStatus.FROZEN)
    await fill(store, "open", types=2, intervals=3, status=TagStatus.UNLOCKED)
    async with served(store) as api:
        await loaded(api, "frozen")
        assert len((await api.client.get("globalTags")).json()) == 2
        store.fail_with(AWAY)
        await asyncio.sleep(reads.OLDEST_S + 0.1)
        listed = await api.client.get("globalTags")
        assert {each["name"] for each in listed.json()} == {"frozen", "open"}
        assert (listed.headers["cache-control"], int(listed.headers["age"]) >= 1) == ("no-store", True)
        assert len((await api.client.get(query("frozen", 10**6))).json()) == 2
        for method, path in (
            ("GET", query("open", 1)),
            ("GET", "pt"),
            ("GET", "gt"),
            ("DELETE", "deleteGlobalTag/open"),
        ):
            refused = await api.client.request(method, path)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "2"), path
            assert refused.json()["detail"] == "the database is away: it is switched off; try again later"
        store.fail_with(None)
        await asyncio.sleep(reads.EVERY_S)
        assert len((await api.client.get(query("open", 10**6))).json()) == 2


async def test_what_is_answered_is_counted_by_route_and_status() -> None:
    store = MemoryConditionsStore()
    await fill(store, "physics", types=1, intervals=3)
    async with served(store) as api:
        await api.client.get(query("physics", 1))
        await eventually(lambda: not api.reads._loading)
        etag = (await api.client.get(query("physics", 1))).headers["etag"]
        await api.client.get(query("physics", 1), headers={"if-none-match": etag})
        await api.client.get("payloadiovs/?gtName=physics")
        await api.client.get("payload-iovs/5")
        await api.client.get(f"{api.url}/favicon.ico")
        await api.client.get("globalTags", headers={"authorization": "Bearer wrong"})
        counts = api.tally.take()
        assert dict(counts.answers) == {
            ("payloadiovs", 200): 2,
            ("payloadiovs", 304): 1,
            ("payloadiovs", 400): 1,
            ("payload-iovs", 404): 1,
            ("other", 404): 1,
            ("globalTags", 401): 1,
        }
        assert (counts.memory_hits, counts.database_reads, len(counts.latencies_ms)) == (2, 1, 4)
        assert all(0 < each < 1000 for each in counts.latencies_ms)
        assert not api.tally.take().answers


async def test_requests_and_bytes_are_counted_by_address_and_user_agent() -> None:
    store = MemoryConditionsStore()
    await fill(store, "physics", types=1, intervals=3)
    async with served(store) as api:
        sent = 0
        for _ in range(3):
            sent += len((await api.client.get("gt", headers={"user-agent": "job/1"})).content)
        refused = await api.client.post("gt", headers={"user-agent": "x" * 500, "authorization": "Bearer wrong"})
        (reader, writer) = await asyncio.open_connection(*api.url.removeprefix("http://").split(":"))
        writer.write(b"GET /api/cdb_rest/pt HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        bare = (await reader.read()).partition(b"\r\n\r\n")[2]
        writer.close()
        assert api.tally.take().uses.by_client == {
            ("127.0.0.1", "job/1"): Use(3, sent),
            ("127.0.0.1", "x" * AGENT_LETTERS): Use(1, len(refused.content)),
            ("127.0.0.1", ""): Use(1, len(bare)),
        }
        assert api.tally.take().uses == Uses()
