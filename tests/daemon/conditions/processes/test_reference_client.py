"""The server of one process and of two beside a model: what a client of the reference does, and random orders."""

import os
import random
from collections.abc import AsyncIterator, Iterable
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest

from schemas.conditions.intervals import LARGEST
from tests.daemon.conditions.processes.test_servers import Running, served
from tests.support.conditions_contract import CELLS, Contract, Run
from tests.support.lives import SQL_SERVERS

pytestmark = pytest.mark.slow

STEPS = int(os.environ.get("TRIGGERLOG_STEPS") or 150)
"""Random orders to each server."""
TAGS, TYPES = ("t0", "t1", "t2", "t3"), ("bpm", "loss", "quad")


@pytest.fixture(params=SQL_SERVERS)
def dsn(request: pytest.FixtureRequest) -> str:
    """The address of a server that is started outside of the loop of a test."""
    return str(request.getfixturevalue(f"{request.param}_dsn"))


@pytest.fixture(params=[1, 2])
async def pair(request: pytest.FixtureRequest, dsn: str, schema: str, tmp_path: Path) -> AsyncIterator["Pair"]:
    async with served(tmp_path, dsn, schema, f"processes = {request.param}\n") as api:
        yield Pair(api)


class Pair:
    """Gives each order to a server and to the model, and compares all that both answer then.

    Each request has a connection of its own, which any process of the server may get.
    """

    def __init__(self, api: Running) -> None:
        self.model = Contract()
        self._api = api
        self._urls, self._minors = count(), cycle((0, 17, LARGEST))

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        answer = await self._api.client.request(method, path, json=body)
        return answer.status_code, answer.json() if answer.content else None

    async def get(self, path: str) -> Any:
        status, found = await self.ask("GET", path)
        assert status == 200, (path, found)
        return found

    async def compare(self, cells: Iterable[int] = range(CELLS)) -> None:
        listed = {each["name"]: each for each in await self.get("globalTags")}
        assert list(listed) == list(self.model.tags)
        for name, tag in self.model.tags.items():
            intervals = sum(len(self.model.runs(each)) for each in tag.lists.values())
            counts = (listed[name]["payload_lists_count"], listed[name]["payload_iov_count"])
            assert (listed[name]["status"], *counts) == (tag.status, len(tag.lists), intervals)
        for name in TAGS:
            lists = self.model.tags[name].lists if name in self.model.tags else {}
            assert await self.get(f"gtPayloadLists/{name}") == lists
            for cell in cells:
                assert await self.rows(name, cell) == self.model.rows(name, cell), (name, cell)
        assert {each["name"] for each in await self.get("pt")} == self.model.types
        assert {each["name"] for each in await self.get("pl")} == set(self.model.lists)

    async def rows(self, tag: str, cell: int) -> list[tuple[str, Run]]:
        # The first key of the cell, one within, or its last one.
        found = await self.get(f"payloadiovs/?gtName={tag}&majorIOV={cell}&minorIOV={next(self._minors)}")
        return [(of, (url, start, CELLS if end == LARGEST else end)) for of, url, _, _, start, _, end, _, _ in found]

    # --- orders, each as a client of the contract gives it -----------------------------------------------------------

    async def _same(self, expected: int, method: str, path: str, body: object = None) -> Any:
        status, found = await self.ask(method, path, body)
        assert status == expected, (method, path, body, found)
        return found

    async def add_tag(self, tag: str) -> None:
        body = {"name": tag, "status": "unlocked", "author": "jane"}
        await self._same(self.model.add_tag(tag), "POST", "gt", body)

    async def add_type(self, of: str) -> None:
        await self._same(self.model.add_type(of), "POST", "pt", {"name": of})

    async def add_list(self, of: str) -> str:
        status, found = await self.ask("POST", "pl", {"payload_type": of})
        name = str(found.get("name"))
        assert status == self.model.add_list(of, name)
        return name

    async def attach_list(self, tag: str, name: str) -> None:
        body = {"payload_list": name, "global_tag": tag}
        await self._same(self.model.attach_list(tag, name), "PUT", "pl_attach", body)

    async def attach(self, name: str, first: int, after: int) -> None:
        url = f"u{next(self._urls)}"
        stored = await self._same(200, "POST", "piov", self._interval(url, first, after))
        body = {"payload_list": name, "piov_id": stored["id"]}
        await self._same(self.model.attach(name, (url, first, after)), "PUT", "piov_attach", body)

    async def attach_many(self, name: str, *spans: tuple[int, int]) -> None:
        runs = [(f"u{next(self._urls)}", *span) for span in sorted(spans)]
        body = [self._interval(*run) | {"payload_list": name} for run in runs]
        await self._same(self.model.attach(name, *runs), "POST", "bulk_piov", body)

    async def clone(self, source: str, tag: str) -> None:
        status, found = await self.ask("POST", f"cloneGlobalTag/{source}/{tag}")
        names = await self.get(f"gtPayloadLists/{tag}") if status == 200 else {}
        assert status == self.model.clone(source, tag, names), found

    async def set_status(self, tag: str, status: str) -> None:
        await self._same(self.model.set_status(tag, status), "PUT", f"gt_change_status/{tag}/{status}")

    async def delete_tag(self, tag: str) -> None:
        await self._same(self.model.delete_tag(tag), "DELETE", f"deleteGlobalTag/{tag}")

    async def delete_type(self, of: str) -> None:
        await self._same(self.model.delete_type(of), "DELETE", f"deletePayloadType/{of}")

    async def delete_list(self, name: str) -> None:
        await self._same(self.model.delete_list(name), "DELETE", f"deletePayloadList/{name}")

    async def delete_interval(self, tag: str, of: str, first: int, after: int) -> None:
        end = "" if after == CELLS else f"/{after}/0"
        path = f"deletePayloadIOV/{tag}/{of}/{first}/0{end}"
        await self._same(self.model.delete_interval(tag, of, first, after), "DELETE", path)

    def _interval(self, url: str, first: int, after: int) -> dict[str, object]:
        end = {} if after == CELLS else {"major_iov_end": after, "minor_iov_end": 0}
        return {"payload_url": url, "checksum": f"of {url}", "major_iov": first, "minor_iov": 0, **end}


class Client:
    """The questions of the reference's client before and after its orders, in its order."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair

    async def has_tag(self, tag: str) -> bool:
        return tag in [each["name"] for each in await self._pair.get("globalTags")]

    async def add_tag(self, tag: str) -> None:
        assert "unlocked" in [each["name"] for each in await self._pair.get("gtstatus")]
        await self._pair.add_tag(tag)
        assert await self.has_tag(tag)

    async def insert(self, tag: str, of: str, first: int, after: int) -> None:
        assert await self.has_tag(tag)
        assert of in [each["name"] for each in await self._pair.get("pt")]
        if of not in await self._pair.get(f"gtPayloadLists/{tag}"):
            await self._pair.attach_list(tag, await self._pair.add_list(of))
        lists = await self._pair.get(f"gtPayloadLists/{tag}")
        await self._pair.attach(lists[of], first, after)

    async def read(self, tag: str, cell: int) -> list[tuple[str, Run]]:
        assert await self.has_tag(tag)
        return await self._pair.rows(tag, cell)

    async def clone(self, source: str, tag: str) -> None:
        assert [await self.has_tag(name) for name in (source, tag)] == [True, False]
        await self._pair.clone(source, tag)

    async def delete_type(self, of: str) -> None:
        for each in await self._pair.get("globalTags"):
            lists = await self._pair.get(f"gtPayloadLists/{each['name']}")
            if of in lists:
                await self._pair.delete_list(lists[of])
        await self._pair.delete_type(of)


async def test_what_a_client_of_the_reference_does_in_its_order(pair: Pair) -> None:
    client, model = Client(pair), pair.model
    for _ in range(3):
        await pair.delete_tag("t0")
        await client.add_tag("t0")
        await pair.add_type("bpm")
        await pair.compare()
        await client.insert("t0", "bpm", 1, 4)
        assert [await client.read("t0", cell) for cell in (0, 1, 3, 4)] == [model.rows("t0", k) for k in (0, 1, 3, 4)]
        await client.clone("t0", "t1")
        assert await client.read("t1", 2) == await client.read("t0", 2) != []
        await pair.delete_tag("t1")
        assert not await client.has_tag("t1")
        assert await pair.rows("t1", 2) == []
        await pair.add_type("quad")
        await client.insert("t0", "quad", 1, 4)
        await client.insert("t0", "bpm", 2, 4)
        await pair.compare()
        await pair.set_status("t0", "locked")
        await client.insert("t0", "bpm", 2, CELLS)  # refused
        await client.insert("t0", "bpm", 4, CELLS)
        await pair.compare()
        await pair.delete_tag("t0")  # refused
        await pair.set_status("t0", "unlocked")
        await client.insert("t0", "bpm", 2, CELLS)
        before = await client.read("t0", 2)
        await pair.add_type("loss")
        await client.insert("t0", "loss", 1, 4)
        assert before != await client.read("t0", 2)
        await client.delete_type("loss")  # refused: it has an interval
        await pair.delete_interval("t0", "loss", 1, 4)
        assert await client.read("t0", 2) == before
        await client.delete_type("loss")
        assert "loss" not in model.types
        await pair.compare()
        await pair.delete_tag("t0")
        assert not await client.has_tag("t0")
        await pair.compare()


@pytest.mark.parametrize("seed", [1])
async def test_random_orders_are_answered_as_the_model_says(pair: Pair, seed: int) -> None:
    dice = random.Random(seed)

    def a_list() -> str:
        return dice.choice([*pair.model.lists, "bpm_999999"])

    def span() -> tuple[int, int]:
        first = dice.randrange(CELLS)
        return first, dice.choice([CELLS, dice.randint(first + 1, CELLS)])

    def an_interval(tag: str) -> tuple[str, int, int]:
        lists = pair.model.tags[tag].lists if tag in pair.model.tags else {}
        there = [(of, *run[1:]) for of, name in lists.items() for run in pair.model.runs(name)]
        return dice.choice([*there, *there, (dice.choice(TYPES), *span())])

    for _ in range(STEPS):
        tag, of = dice.choice(TAGS), dice.choice(TYPES)
        orders = {
            "add_tag": (tag,),
            "add_type": (of,),
            "add_list": (of,),
            "attach_list": (tag, a_list()),
            "attach": (a_list(), *span()),
            "attach_many": (a_list(), span(), span()),
            "clone": (tag, dice.choice(TAGS)),
            # A frozen tag stays for ever.
            "set_status": (tag, "frozen" if dice.random() < 0.02 else dice.choice(("locked", "unlocked"))),
            "delete_tag": (tag,),
            "delete_type": (of,),
            "delete_list": (a_list(),),
            "delete_interval": (tag, *an_interval(tag)),
        }
        often = ("attach_list", "attach", "attach", "set_status")
        name = dice.choice([*orders, *often])
        await getattr(pair, name)(*orders[name])
        await pair.compare([dice.randrange(CELLS)])
