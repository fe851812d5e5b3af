"""The contract of the reference, over a real socket, as its client in C++ uses it: every answer is parsed as JSON."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import httpx
import pytest

from daemon.conditions.requests import nested
from schemas.conditions.intervals import LARGEST
from tests.support.conditions_server import PREFIX, TOKEN, Served, fill, served
from tests.support.listening import eventually
from tests.support.memory.conditions import MemoryConditionsStore

Part = Callable[[Served], Awaitable[None]]
"""A test of the contract, which other stores have to pass, too."""

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")


@pytest.fixture
async def api() -> AsyncIterator[Served]:
    async with served(MemoryConditionsStore()) as made:
        yield made


async def ask(api: Served, method: str, path: str, body: object = None, status: int = 200) -> Any:
    answer = (
        await api.client.request(method, path, json=body)
        if body is not None
        else await api.client.request(method, path)
    )
    assert answer.status_code == status, (method, path, answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def without_times(found: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("created", "updated", "inserted"):
        if name in found:
            assert MOMENT.fullmatch(found[name]), found
    return {name: value for name, value in found.items() if name not in ("created", "updated", "inserted")}


async def a_tag(api: Served, name: str = "physics", types: tuple[str, ...] = ("Beam",)) -> dict[str, str]:
    """A tag with a list of each type, as the client makes it; returns the names of the lists."""
    await ask(api, "POST", "gt", {"name": name, "status": "unlocked", "author": "jane"})
    for each in types:
        await ask(api, "POST", "pt", {"name": each})
        made = await ask(api, "POST", "pl", {"payload_type": each})
        await ask(api, "PUT", "pl_attach", {"payload_list": made["name"], "global_tag": name})
    lists: dict[str, str] = await ask(api, "GET", f"gtPayloadLists/{name}")
    return lists


async def attach(api: Served, name: str, url: str, *key: int, status: int = 200) -> Any:
    fields = dict(zip(("major_iov", "minor_iov", "major_iov_end", "minor_iov_end"), key, strict=False))
    made = await ask(api, "POST", "piov", {"payload_url": url, "checksum": f"sum of {url}", **fields})
    return await ask(api, "PUT", "piov_attach", {"payload_list": name, "piov_id": made["id"]}, status)


def query(tag: str, major: int, minor: int, more: str = "") -> str:
    return f"payloadiovs/?gtName={tag}&majorIOV={major}&minorIOV={minor}{more}"


async def test_what_the_client_does_from_an_empty_database_to_a_payload(api: Served) -> None:
    for name in ("unlocked", "locked", "unlocked"):
        made = await ask(api, "POST", "gtstatus", {"name": name})
        assert made["name"] == name
    assert [each["name"] for each in await ask(api, "GET", "gtstatus")] == ["unlocked", "locked", "frozen"]
    assert await ask(api, "GET", "globalTags") == []
    tag = await ask(api, "POST", "gt", {"name": "physics", "status": "unlocked", "author": "jane"})
    assert without_times(tag) == {"id": 1, "name": "physics", "author": "jane", "status": "unlocked"}
    assert without_times(await ask(api, "POST", "pt", {"name": "Beam"})) == {"id": 1, "name": "Beam"}
    assert await ask(api, "GET", "gtPayloadLists/physics") == {}
    made = await ask(api, "POST", "pl", {"payload_type": "Beam"})
    expected = {"id": 1, "name": "Beam_1", "global_tag": None, "payload_type": "Beam"}
    assert without_times(made) == expected
    attached = await ask(api, "PUT", "pl_attach", {"payload_list": "Beam_1", "global_tag": "physics"})
    assert without_times(attached) == expected | {"global_tag": "physics"}
    assert await ask(api, "GET", "gtPayloadLists/physics") == {"Beam": "Beam_1"}
    iov = await ask(
        api, "POST", "piov", {"payload_url": "a/b.json", "major_iov": 7, "minor_iov": 1_000, "checksum": "abcd"}
    )
    shape = {
        "id": iov["id"],
        "payload_url": "a/b.json",
        "checksum": "abcd",
        "major_iov": 7,
        "minor_iov": 1_000,
        "comb_iov": "7.0000000000000001000",
        "major_iov_end": LARGEST,
        "minor_iov_end": LARGEST,
        "payload_list": None,
    }
    assert without_times(iov) == shape
    in_list = await ask(api, "PUT", "piov_attach", {"payload_list": "Beam_1", "piov_id": iov["id"]})
    assert without_times(in_list) == shape | {"payload_list": "Beam_1"}
    assert without_times(await ask(api, "GET", f"piov/{iov['id']}")) == shape | {"payload_list": "Beam_1"}
    # And then a job: it looks for its tag in the list of all, and asks what is valid.
    (listed,) = await ask(api, "GET", "globalTags")
    assert without_times(listed) == {
        "id": 1,
        "name": "physics",
        "author": "jane",
        "status": "unlocked",
        "payload_lists_count": 1,
        "payload_iov_count": 1,
    }
    row = ["Beam", "a/b.json", "abcd", None, 7, 1_000, LARGEST, LARGEST, None]
    assert await ask(api, "GET", query("physics", 7, 1_000)) == [row]
    assert await ask(api, "GET", query("physics", 8, 0)) == [row]
    assert await ask(api, "GET", query("physics", 7, 999)) == []
    names = ("payload_type_name", "payload_url", "checksum", "size", "major_iov", "minor_iov")
    (found,) = await ask(api, "GET", query("physics", 7, 1_000, "&shape=dict"))
    assert list(found.items()) == list(zip((*names, "major_iov_end", "minor_iov_end", "revision"), row, strict=True))


async def test_nested_shapes(api: Served) -> None:
    lists = await a_tag(api, types=("Beam", "Dipole"))
    for major in (1, 5):
        await attach(api, lists["Beam"], f"beam{major}", major, 0)
    nested = await ask(api, "GET", "globalTag/physics")
    assert nested["status"] == {
        "id": 1,
        "name": "unlocked",
        "description": None,
        "created": "1970-01-01T00:00:00.000000",
    }
    beam, dipole = nested["payload_lists"]
    assert (dipole["name"], dipole["payload_iov"]) == (lists["Dipole"], [])
    assert without_times(beam)["global_tag"] == "physics"
    assert [(each["payload_url"], each["major_iov"], each["major_iov_end"]) for each in beam["payload_iov"]] == [
        *(("beam1", 1, 5), ("beam5", 5, LARGEST)),
    ]
    assert {each["payload_list"] for each in beam["payload_iov"]} == {lists["Beam"]}
    assert await ask(api, "GET", "gt") == [nested] == [await ask(api, "GET", "gt/1")]
    assert await ask(api, "GET", "pl") == [beam, dipole]
    assert await ask(api, "GET", "piov") == beam["payload_iov"]
    assert without_times(await ask(api, "GET", "pl/2")) == {
        "id": 2,
        "name": lists["Dipole"],
        "global_tag": 1,
        "payload_type": 2,
    }
    light = await ask(api, "GET", "globalTag/physics?light=1")
    assert (light["status"], light["payload_lists_count"], light["payload_iov_count"]) == ("unlocked", 2, 2)
    assert (await ask(api, "GET", f"payload-lists/by-name/{lists['Beam']}"))["iov_count"] == 2
    flat = await ask(api, "GET", f"payload-lists/by-name/{lists['Beam']}/intervals")
    assert [row[:2] + row[4:] for row in flat] == [
        ["Beam", "beam1", 1, 0, 5, 0, None],
        ["Beam", "beam5", 5, 0, LARGEST, LARGEST, None],
    ]
    assert await ask(api, "GET", f"payload-lists/by-name/{lists['Dipole']}/intervals") == []


async def test_readable_names_are_the_same_routes(api: Served) -> None:
    await ask(api, "POST", "global-tags/statuses", {"name": "frozen"})
    lists = await a_tag(api)
    await attach(api, lists["Beam"], "beam", 1, 0)
    for alias, path in (
        ("global-tags", "globalTags"),
        ("global-tags/statuses", "gtstatus"),
        ("global-tags/physics", "globalTag/physics"),
        ("global-tags/physics/payload-lists", "gtPayloadLists/physics"),
        ("payload-types", "pt"),
        ("payload-lists", "pl"),
        ("payload-lists/1", "pl/1"),
        ("payload-iovs", "piov"),
        ("payload-iovs/1", "piov/1"),
        ("payload-iovs/query/?gtName=physics&majorIOV=2&minorIOV=0", query("physics", 2, 0)),
    ):
        assert await ask(api, "GET", alias) == await ask(api, "GET", path) != []
    made = await ask(api, "POST", "global-tags/physics/clone/copy")
    assert (made["status"], made["payload_iov_count"]) == ("unlocked", 1)
    assert (await ask(api, "PUT", "global-tags/copy/change-status/locked"))["status"] == 2
    assert (await ask(api, "PUT", "global-tags/copy/change-status/unlocked"))["status"] == 1
    await ask(api, "DELETE", f"payload-iovs/copy/Beam/1/0/{LARGEST}/{LARGEST}/delete")
    assert await ask(api, "GET", query("copy", 2, 0)) == []
    assert len(await ask(api, "GET", query("physics", 2, 0))) == 1
    await ask(api, "DELETE", "global-tags/copy/delete")
    assert [each["name"] for each in await ask(api, "GET", "globalTags")] == ["physics"]


async def test_attaching_trims_and_a_locked_tag_refuses(api: Served) -> None:
    beam = (await a_tag(api))["Beam"]
    await attach(api, beam, "a", 0, 0, 10, 0)
    await attach(api, beam, "b", 3, 0, 5, 0)
    assert [row[1:3] + row[4:8] for row in await ask(api, "GET", query("physics", 4, 0))] == [
        ["b", "sum of b", 3, 0, 5, 0]
    ]
    assert (await ask(api, "GET", query("physics", 6, 0)))[0][4:8] == [5, 0, 10, 0]
    await ask(api, "PUT", "gt_change_status/physics/locked")
    refused = await attach(api, beam, "c", 4, 0, 6, 0, status=409)
    assert refused["detail"].startswith("major_iov: the global tag is locked")
    await attach(api, beam, "d", 10, 0)
    await attach(api, beam, "e", 12, 0)
    assert (await ask(api, "GET", query("physics", 11, 0)))[0][1] == "d"
    assert (await ask(api, "GET", query("physics", 12, 0)))[0][1] == "e"
    await ask(api, "PUT", "gt_change_status/physics/frozen")
    for method, path in (
        ("PUT", "gt_change_status/physics/unlocked"),
        ("DELETE", "deleteGlobalTag/physics"),
        ("DELETE", "deletePayloadIOV/physics/Beam/12/0"),
    ):
        assert "frozen" in (await ask(api, method, path, status=409))["detail"]
    assert "frozen" in (await attach(api, beam, "f", 20, 0, status=409))["detail"]


async def test_pages_are_searched_sorted_and_cut(api: Served) -> None:
    lists = await a_tag(api, types=("Alpha", "Beta", "Gamma"))
    for major in range(12):
        await attach(api, lists["Alpha"], f"url{major:02d}", major, 0)
    await ask(api, "POST", "piov", {"payload_url": "loose", "checksum": "", "major_iov": 5, "minor_iov": 0})
    await a_tag(api, "other", ())
    found = await ask(api, "GET", "globalTags?page=1&page_size=1&sort=name&order=desc")
    assert {name: found[name] for name in ("count", "page", "page_size", "total_pages")} == {
        "count": 2,
        "page": 1,
        "page_size": 1,
        "total_pages": 2,
    }
    assert [each["name"] for each in found["results"]] == ["physics"]
    assert (await ask(api, "GET", "globalTags?page=1&search=JAN&status=locked"))["count"] == 0
    assert (await ask(api, "GET", "global-tags?page=9"))["results"] == []
    assert [each["name"] for each in (await ask(api, "GET", "pt?page=1&search=ET"))["results"]] == ["Beta"]
    (row,) = (await ask(api, "GET", "pl?page=1&payload_type=Alpha"))["results"]
    assert (row["iov_count"], row["global_tag"], "payload_iov" in row) == (12, "physics", False)
    found = await ask(api, "GET", "piov?page=2&page_size=5&sort=major_iov&order=desc&global_tag=physics")
    assert [each["major_iov"] for each in found["results"]] == [6, 5, 4, 3, 2]
    assert (found["count"], found["total_pages"]) == (12, 3)
    assert {each["payload_type"] for each in found["results"]} == {"Alpha"}
    everything = await ask(api, "GET", "piov?page=1&page_size=1000")
    assert everything["count"] == 13
    (loose,) = (await ask(api, "GET", "piov?page=1&search=loose"))["results"]
    assert (loose["payload_list"], loose["global_tag"], loose["payload_type"]) == (None, None, None)
    for path, field in (
        ("globalTags?page=0", "page"),
        ("pt?page=1&page_size=1001", "page_size"),
        ("pl?page=1&sort=colour", "sort"),
        ("piov?page=1&order=up", "order"),
        ("pt?page=one", "page"),
        ("pt?search=x", "search"),
        ("globalTags?search=x", "search"),
        ("globalTags?page=1&status=lost", "status"),
        ("globalTags?page_size=1", "page_size"),
        ("pt?page_size=1", "page_size"),
        ("pl?order=desc", "order"),
        ("piov?page=1&colour=red", "colour"),
    ):
        refused = await ask(api, "GET", path, status=400)
        assert refused["field"] == field, refused


async def test_what_is_empty_in_a_query_counts_as_not_given(api: Served) -> None:
    lists = await a_tag(api, types=("Alpha", "Beta"))
    await attach(api, lists["Alpha"], "a", 1, 0)
    for path, filters in (
        ("globalTags", "status="),
        ("pt", ""),
        ("pl", "global_tag=&payload_type="),
        ("piov", "global_tag=&payload_type=&payload_list="),
    ):
        every = await ask(api, "GET", f"{path}?page=1")
        assert every["count"]
        assert await ask(api, "GET", f"{path}?page=1&sort=&search=&{filters}") == every
        assert await ask(api, "GET", f"{path}?page=1&search=%20%20") == every
        whole = await ask(api, "GET", path)
        assert [each["name"] if path != "piov" else each["payload_url"] for each in whole]
        assert await ask(api, "GET", f"{path}?order=asc&page_size=25") == whole
    for path in ("pl", "piov"):
        found = await ask(api, "GET", f"{path}?page=1&global_tag=&payload_type=Alpha&search=%20A%20")
        assert found["count"] == 1


async def test_pages_are_sorted_by_every_field_of_the_reference(api: Served) -> None:
    lists = await a_tag(api, types=("Alpha", "Beta"))
    await attach(api, lists["Beta"], "b", 1, 7, 9, 2)
    await attach(api, lists["Alpha"], "c", 3, 5, 4, 6)
    await attach(api, lists["Alpha"], "a", 1, 9, 3, 4)
    await ask(api, "POST", "piov", {"payload_url": "loose", "checksum": "", "major_iov": 2, "minor_iov": 0})
    orders = {
        "id": "bcal",
        "payload_url": "abcl",
        "checksum": "labc",
        "major_iov": "balc",
        "minor_iov": "lcba",
        "major_iov_end": "acbl",
        "minor_iov_end": "bacl",
        "payload_list": "cabl",  # PostgreSQL has rows without one last
        "global_tag": "bcal",
        "payload_type": "cabl",
        "inserted": "bcal",
    }
    for field, order in orders.items():
        found = await ask(api, "GET", f"piov?page=1&sort={field}")
        assert "".join(each["payload_url"][0] for each in found["results"]) == order, field
    found = await ask(api, "GET", "piov?page=1&sort=global_tag&order=desc")
    assert "".join(each["payload_url"][0] for each in found["results"]) == "lbca"  # ids ascend among equals
    await a_tag(api, "another", ())
    for path in ("globalTags", "pt", "pl"):
        names = [each["name"] for each in (await ask(api, "GET", f"{path}?page=1"))["results"]]
        assert names == sorted(names) != []


NO_NAMES = ["%00", "a%00b", "%CE%A9", "%EF%BF%BF", "%ED%A0%80", "x" * 3000]


@pytest.mark.parametrize("name", NO_NAMES)
async def test_a_name_that_no_database_has_is_refused_in_one_sentence(api: Served, name: str) -> None:
    await a_tag(api)
    for method, path in (
        ("GET", f"globalTag/{name}"),
        ("GET", f"globalTag/{name}?light=1"),
        ("GET", f"payload-lists/by-name/{name}"),
        ("GET", f"payload-lists/by-name/{name}/intervals"),
        ("POST", f"cloneGlobalTag/{name}/copy"),
        ("PUT", f"gt_change_status/{name}/locked"),
        ("DELETE", f"deleteGlobalTag/{name}"),
        ("DELETE", f"deletePayloadType/{name}"),
        ("DELETE", f"deletePayloadList/{name}"),
        ("DELETE", f"deletePayloadIOV/{name}/Beam/1/1"),
        ("DELETE", f"deletePayloadIOV/physics/{name}/1/1"),
    ):
        answer = await api.client.request(method, path)
        detail = answer.json()["detail"]
        assert answer.status_code == (400 if "%00" in name else 404), (path, detail)
        assert re.fullmatch(r"[^@\n]+; [^@\n]+", detail)
    for path in (f"gtPayloadLists/{name}", query(name, 1, 1), f"piov?page=1&payload_list={name}"):
        assert (await api.client.get(path)).status_code == (400 if "%00" in name else 200)


async def test_bulk_obeys_the_rules_of_attaching(api: Served) -> None:
    lists = await a_tag(api, types=("Alpha", "Beta"))

    def rows(name: str, *keys: tuple[int, ...]) -> list[dict[str, object]]:
        fields = ("major_iov", "minor_iov", "major_iov_end", "minor_iov_end")
        return [
            {"payload_url": f"{name}{key}", "payload_list": lists[name], **dict(zip(fields, key, strict=False))}
            for key in keys
        ]

    # Within a list open ones hold up to the next one, in whatever order they come.
    answer = await api.client.post(
        "bulk_piov", json=[*rows("Alpha", (9, 0), (1, 0)), *rows("Beta", (2, 0, 4, 0)), *rows("Alpha", (5, 0))]
    )
    assert (answer.status_code, answer.content) == (200, b"")
    for major, expected in ((1, ["Alpha(1, 0)"]), (3, ["Alpha(1, 0)", "Beta(2, 0, 4, 0)"]), (7, ["Alpha(5, 0)"])):
        assert [row[1] for row in await ask(api, "GET", query("physics", major, 0))] == expected
    await ask(api, "PUT", "gt_change_status/physics/locked")
    mixed = [*rows("Beta", (4, 0)), *rows("Alpha", (11, 0), (6, 0, 7, 0))]
    refused = await ask(api, "POST", "bulk_piov", mixed, 409)
    assert refused["detail"].startswith("[2].major_iov: the global tag is locked"), refused
    assert [row[1] for row in await ask(api, "GET", query("physics", 12, 0))] == ["Alpha(9, 0)"]
    await ask(api, "PUT", "gt_change_status/physics/frozen")
    assert (await ask(api, "POST", "bulk_piov", rows("Beta", (50, 0)), 409))["field"] == "[0].global_tag"


async def test_many_intervals_in_one_request(api: Served) -> None:
    lists = await a_tag(api, types=("Alpha", "Beta"))
    many = [
        {"payload_url": "x" * 60, "checksum": "0" * 32, "size": i, "payload_list": lists[("Alpha", "Beta")[i % 2]]}
        | {"major_iov": i, "minor_iov": 0}
        for i in range(20_000)
    ]
    answer = await api.client.post("bulk_piov", json=many)
    assert answer.status_code == 200, answer.text
    assert [row[3] for row in await ask(api, "GET", query("physics", 777, 0))] == [776, 777]


BAD_BULK: list[tuple[object, str, str]] = [
    ({}, "body", "there is no array"),
    ([1], "[0]", "there is no object"),
    ([{"payload_url": "u"}], "[0].major_iov", "missing"),
    ([{"major_iov": 1.5}], "[0].major_iov", "whole number"),
    ([{"major_iov": True}], "[0].major_iov", "whole number"),
    ([{"major_iov": "1"}], "[0].major_iov", "whole number"),
    ([{"major_iov": -1}], "[0].major_iov", "whole number"),
    ([{"major_iov": 2**63}], "[0].major_iov", "63 bits"),
    ([{"major_iov": 10**30}], "[0].major_iov", "63 bits"),
    ([{}, {"minor_iov": None}], "[1].minor_iov", "whole number"),
    ([{}, {"minor_iov_end": 2**64}], "[1].minor_iov_end", "63 bits"),
    ([{"payload_url": 7}], "[0].payload_url", "no text"),
    ([{"payload_url": ""}], "[0].payload_url", "no text"),
    ([{"payload_url": "u" * 256}], "[0].payload_url", "no text"),
    ([{"payload_list": ["a"]}], "[0].payload_list", "no text"),
    ([{"size": -1}], "[0].size", "whole number"),
    ([{"colour": 1}], "[0].colour", "unknown key"),
    ([{"major_iov_end": 0}], "[0].major_iov_end", "ends before it begins"),
    ([{}, {"payload_list": "Beam_77"}], "payload_list", "Beam_77 is not there"),
]


@pytest.mark.parametrize(("rows", "field", "problem"), BAD_BULK)
async def test_one_wrong_interval_among_many_is_named_and_nothing_is_stored(
    api: Served, rows: object, field: str, problem: str
) -> None:
    beam = (await a_tag(api))["Beam"]
    whole = {"payload_url": "u", "major_iov": 3, "minor_iov": 4, "payload_list": beam}
    body = rows
    if isinstance(rows, list) and rows != [1]:
        body = [row if row == {"payload_url": "u"} else whole | row for row in rows]
    status = 404 if "not there" in problem else 400
    refused = await ask(api, "POST", "bulk_piov", body, status)
    assert (refused["field"], "\n" in refused["detail"]) == (field, False), refused
    assert problem in refused["detail"]
    assert refused["detail"].startswith(f"{field}: ")
    assert await ask(api, "GET", query("physics", 5, 0)) == []


async def test_names_that_are_not_there(api: Served) -> None:
    beam = (await a_tag(api))["Beam"]
    iov = await ask(api, "POST", "piov", {"payload_url": "u", "checksum": "", "major_iov": 1, "minor_iov": 1})
    assert await ask(api, "GET", query("nobody", 1, 1)) == []
    assert await ask(api, "GET", "gtPayloadLists/nobody") == {}
    for method, path, body in (
        ("GET", "globalTag/nobody", None),
        ("GET", "globalTag/nobody?light=1", None),
        ("GET", "gt/77", None),
        ("GET", "pl/77", None),
        ("GET", "piov/77", None),
        ("GET", "payload-lists/by-name/nobody", None),
        ("GET", "payload-lists/by-name/nobody/intervals", None),
        ("POST", "pl", {"payload_type": "nobody"}),
        ("PUT", "pl_attach", {"payload_list": "nobody", "global_tag": "physics"}),
        ("PUT", "pl_attach", {"payload_list": beam, "global_tag": "nobody"}),
        ("PUT", "piov_attach", {"payload_list": "nobody", "piov_id": iov["id"]}),
        ("PUT", "piov_attach", {"payload_list": beam, "piov_id": 77}),
        ("POST", "cloneGlobalTag/nobody/copy", None),
        ("PUT", "gt_change_status/nobody/locked", None),
        ("DELETE", "deleteGlobalTag/nobody", None),
        ("DELETE", "deletePayloadType/nobody", None),
        ("DELETE", "deletePayloadList/nobody", None),
        ("DELETE", "deletePayloadIOV/nobody/Beam/1/1", None),
        ("DELETE", "deletePayloadIOV/physics/nobody/1/1", None),
        ("DELETE", "deletePayloadIOV/physics/Beam/1/1", None),
        ("GET", "nowhere", None),
        ("DELETE", "nowhere/at/all", None),
    ):
        refused = await ask(api, method, path, body, 404)
        assert "\n" not in refused["detail"], (path, refused)
        assert refused["detail"]


async def test_a_name_that_is_taken_is_told_as_the_client_shows_it(api: Served) -> None:
    await a_tag(api)
    for path, body in (("gt", {"name": "physics", "status": "locked"}), ("pt", {"name": "Beam"})):
        refused = await ask(api, "POST", path, body, 400)
        assert refused["name"] == [refused["detail"]]
        assert "already exists" in refused["detail"]
    refused = await ask(api, "POST", "cloneGlobalTag/physics/physics", None, 400)
    assert "already exists" in refused["name"][0]


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "gtstatus", {"name": "running"}, "status"),
        ("POST", "gt", {"name": "x", "status": "running"}, "status"),
        ("POST", "gt", {"name": "x"}, "status"),
        ("POST", "gt", {"name": "a/b", "status": "locked"}, "name"),
        ("POST", "gt", {"name": "", "status": "locked"}, "name"),
        ("POST", "gt", {"name": "x" * 81, "status": "locked"}, "name"),
        ("POST", "gt", {"name": " x", "status": "locked"}, "name"),
        ("POST", "gt", {"name": "a\nb", "status": "locked"}, "name"),
        ("POST", "gt", {"name": 7, "status": "locked"}, "name"),
        ("POST", "gt", {"name": "x", "status": "locked", "colour": "red"}, "colour"),
        ("POST", "gt", [], "body"),
        ("PUT", "gt_change_status/physics/running", None, "status"),
        ("POST", "pt", {"name": None}, "name"),
        ("POST", "pl", {}, "payload_type"),
        ("POST", "piov", {"checksum": "", "major_iov": 1, "minor_iov": 1}, "payload_url"),
        ("POST", "piov", {"payload_url": "u", "major_iov": 1}, "minor_iov"),
        ("POST", "piov", {"payload_url": "u", "major_iov": 2**63, "minor_iov": 1}, "major_iov"),
        ("POST", "piov", {"payload_url": "u", "major_iov": 10**400, "minor_iov": 1}, "major_iov"),
        ("POST", "piov", {"payload_url": "u", "major_iov": -1, "minor_iov": 1}, "major_iov"),
        ("POST", "piov", {"payload_url": "u", "major_iov": 1.5, "minor_iov": 1}, "major_iov"),
        ("POST", "piov", {"payload_url": "u", "major_iov": "1", "minor_iov": 1}, "major_iov"),
        ("POST", "piov", {"payload_url": "u", "major_iov": True, "minor_iov": 1}, "major_iov"),
        ("POST", "piov", {"payload_url": "u", "major_iov": 5, "minor_iov": 1, "major_iov_end": 4}, "major_iov_end"),
        ("POST", "piov", {"payload_url": "u", "major_iov": LARGEST, "minor_iov": LARGEST}, "major_iov_end"),
        ("POST", "piov", {"payload_url": "a\0b", "major_iov": 1, "minor_iov": 1}, "payload_url"),
        ("PUT", "piov_attach", {"payload_list": "Beam_1", "piov_id": "x"}, "piov_id"),
        ("GET", "gt/one", None, "number"),
        ("GET", "payloadiovs/?gtName=physics&majorIOV=1", None, "minorIOV"),
        ("GET", "payloadiovs/?majorIOV=1&minorIOV=1", None, "gtName"),
        ("GET", "payloadiovs/?gtName=physics&majorIOV=1&minorIOV=-1", None, "minorIOV"),
        ("GET", "payloadiovs/?gtName=physics&majorIOV=1.5&minorIOV=1", None, "majorIOV"),
        ("GET", f"payloadiovs/?gtName=physics&majorIOV={2**63}&minorIOV=1", None, "majorIOV"),
        ("GET", "payloadiovs/?gtName=physics&majorIOV=1&minorIOV=%C2%B2", None, "minorIOV"),
        ("GET", "payloadiovs/?gtName=physics&majorIOV=1&minorIOV=1&shape=cube", None, "shape"),
        ("GET", "payloadiovs/?gtName=physics&majorIOV=1&minorIOV=1&run=5", None, "run"),
        ("DELETE", "deletePayloadIOV/physics/Beam/x/1", None, "major"),
    ],
)
async def test_wrong_input_is_one_line_with_field_and_fix(
    api: Served, method: str, path: str, body: object, field: str
) -> None:
    await a_tag(api)
    before = await ask(api, "GET", "gt"), await ask(api, "GET", "piov"), await ask(api, "GET", "pt")
    refused = await ask(api, method, path, body, 400)
    assert refused["field"] == field, refused
    assert refused["detail"].startswith(f"{field}: "), refused
    assert ";" in refused["detail"]
    assert "\n" not in refused["detail"]
    assert before == (await ask(api, "GET", "gt"), await ask(api, "GET", "piov"), await ask(api, "GET", "pt"))


async def test_what_is_no_json_or_not_allowed_is_answered_in_json(api: Served) -> None:
    for content in (b"{", b"\xff", b"[" * 100_000, b"null", b'"x"'):
        for path in ("gt", "bulk_piov"):
            answer = await api.client.post(path, content=content, headers={"content-type": "application/json"})
            assert answer.status_code == 400, (path, content[:10])
            assert answer.json()["detail"]
    for method, path in (("POST", "payloadiovs/"), ("DELETE", "gt"), ("PATCH", "pt")):
        assert (await ask(api, method, path, status=405))["detail"]
    lists = await a_tag(api)
    await attach(api, lists["Beam"], "u", 1, 0)
    whole = await api.client.get(query("physics", 1, 0))
    head = await api.client.head(query("physics", 1, 0))
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))


async def test_types_and_lists_that_are_used_stay(api: Served) -> None:
    beam = (await a_tag(api))["Beam"]
    assert "Beam" in (await ask(api, "DELETE", "deletePayloadType/Beam", status=409))["detail"]
    await attach(api, beam, "u", 1, 0)
    assert "1 interval" in (await ask(api, "DELETE", f"deletePayloadList/{beam}", status=409))["detail"]
    await ask(api, "PUT", "gt_change_status/physics/locked")
    assert "locked" in (await ask(api, "DELETE", "deletePayloadIOV/physics/Beam/1/0", status=409))["detail"]
    await ask(api, "PUT", "gt_change_status/physics/unlocked")
    loose = (await ask(api, "POST", "pl", {"payload_type": "Beam"}))["name"]
    await attach(api, loose, "u", 1, 0)
    assert "1 interval" in (await ask(api, "DELETE", f"deletePayloadList/{loose}", status=409))["detail"]
    await ask(api, "DELETE", "deleteGlobalTag/physics")
    empty = (await ask(api, "POST", "pl", {"payload_type": "Beam"}))["name"]
    assert empty in (await ask(api, "DELETE", f"deletePayloadList/{empty}"))["detail"]
    (of_tag,) = (await a_tag(api, "other", ("Dipole",))).values()
    assert of_tag in (await ask(api, "DELETE", f"deletePayloadList/{of_tag}"))["detail"]
    assert await ask(api, "GET", "gtPayloadLists/other") == {}
    await ask(api, "DELETE", "deletePayloadType/Dipole")


async def test_a_list_of_another_tag_is_not_taken_for_this_one(api: Served) -> None:
    beam = (await a_tag(api))["Beam"]
    await a_tag(api, "other", ())
    iov = await ask(api, "POST", "piov", {"payload_url": "u", "checksum": "", "major_iov": 1, "minor_iov": 1})
    order = {"payload_list": beam, "piov_id": iov["id"]}
    refused = await ask(api, "PUT", "piov_attach", order | {"global_tag": "other"}, 409)
    assert refused["field"] == "global_tag"
    await ask(api, "PUT", "piov_attach", order | {"global_tag": "physics"})


async def test_orders_need_the_token_and_reading_on_loopback_does_not(api: Served) -> None:
    await a_tag(api)
    async with httpx.AsyncClient(base_url=f"{api.url}/api/cdb_rest/", trust_env=False, timeout=60) as client:
        assert (await client.get("globalTags")).status_code == 200
        assert (await client.get(query("physics", 1, 1))).status_code == 200
        for method, path in (
            ("POST", "gt"),
            ("PUT", "gt_change_status/physics/locked"),
            ("DELETE", "deleteGlobalTag/physics"),
        ):
            refused = await client.request(method, path)
            assert (refused.status_code, "token" in refused.json()["detail"]) == (401, True)
        named = await client.get("globalTags", headers={"host": "conditions.example.org"})
        assert (named.status_code, "name" in named.json()["detail"]) == (403, True)
    async with served(MemoryConditionsStore(), reads_freely=False) as guarded:
        plain = {"authorization": ""}
        assert (await guarded.client.get("globalTags", headers=plain)).status_code == 401
        assert (await guarded.client.get("globalTags", headers={"authorization": f"Bearer {TOKEN}"})).json() == []


async def test_the_password_of_an_address_is_the_token(api: Served) -> None:
    # Of all headers the reference's client in C++ sends only what libcurl makes of `user:password@` in its base_url.
    made = {"name": "physics", "status": "unlocked", "author": "jane"}
    async with httpx.AsyncClient(base_url=f"{api.url}/api/cdb_rest/", trust_env=False, timeout=60) as client:
        for wrong in (("anyone", "guess"), (TOKEN, ""), ("", "")):
            refused = await client.post("gt", json=made, auth=wrong)
            assert (refused.status_code, "token" in refused.json()["detail"]) == (401, True)
        for given in ("Basic", "Basic !", "Basic Og", "Basic /w==", "Basic ä".encode("latin-1")):
            refused = await client.post("gt", json=made, headers={"authorization": given})
            assert (refused.status_code, "token" in refused.json()["detail"]) == (401, True)
        assert (await client.post("gt", json=made, auth=("anyone", TOKEN))).json()["name"] == "physics"
        assert (await client.delete("deleteGlobalTag/physics", auth=("", TOKEN))).status_code == 200


async def test_the_largest_key_finds_what_is_open(api: Served) -> None:
    # Clients ask with it for the newest; the reference has no key at which something open is not valid.
    lists = await a_tag(api, types=("Beam", "Dump"))
    await attach(api, lists["Beam"], "open", 1, 0)
    await attach(api, lists["Dump"], "over", 1, 0, LARGEST, LARGEST - 1)
    for status in ("unlocked", "locked", "frozen"):
        await ask(api, "POST", f"cloneGlobalTag/physics/{status}")
        await ask(api, "PUT", f"gt_change_status/{status}/{status}")
        for _ in range(2):  # from the database, and then from memory
            for key in ((LARGEST, LARGEST - 1), (LARGEST, LARGEST)):
                (row,) = await ask(api, "GET", query(status, *key))
                assert row == ["Beam", "open", "sum of open", None, 1, 0, LARGEST, LARGEST, None]
            await eventually(lambda: status == "unlocked" or api.reads.tags.get(status) is not None)  # noqa: B023


async def test_every_answer_can_be_asked_for_without_its_body(api: Served) -> None:
    lists = await a_tag(api)
    made = await attach(api, lists["Beam"], "a", 1, 0)
    for path in (
        *("globalTags", "globalTags?page=1", "gt", "gt/1", "globalTag/physics", "gtPayloadLists/physics"),
        *("gtstatus", "pt", "pl", "pl/1", f"payload-lists/by-name/{lists['Beam']}", "piov", f"piov/{made['id']}"),
        *(query("physics", 1, 0), "globalTag/nobody", "pt?colour=red"),
    ):
        head, whole = await api.client.head(path), await api.client.get(path)
        assert (head.status_code, head.content) == (whole.status_code, b""), path
        assert head.headers["content-type"] == "application/json"
    assert (await api.client.head("pl_attach")).status_code == 405


@pytest.mark.parametrize("path", ["globalTag/{}", "payload-lists/by-name/{}", "pt?{}=1", "globalTags?page=1&status={}"])
async def test_an_error_is_one_line_whatever_is_asked(api: Served, path: str) -> None:
    answer = await api.client.get(path.format("a%0d%0ab%E2%80%A8"))
    assert answer.status_code in (400, 404)
    assert len(answer.json()["detail"].splitlines()) == 1


async def test_an_interval_that_its_list_has_is_attached_again(api: Served) -> None:
    # A client that a proxy has answered with 504 does not know what became of its order, and gives it again.
    lists = await a_tag(api)
    made = await attach(api, lists["Beam"], "first", 1, 0)
    order = {"payload_list": lists["Beam"], "piov_id": made["id"]}
    assert await ask(api, "PUT", "piov_attach", order) == made
    second = await attach(api, lists["Beam"], "second", 5, 0)
    trimmed = await ask(api, "PUT", "piov_attach", order)
    assert trimmed == made | {"major_iov_end": 5, "minor_iov_end": 0}
    await ask(api, "PUT", "gt_change_status/physics/locked")
    again = {"payload_list": lists["Beam"], "piov_id": second["id"]}
    assert await ask(api, "PUT", "piov_attach", again) == second
    other = (await ask(api, "POST", "pl", {"payload_type": "Beam"}))["name"]
    refused = await ask(api, "PUT", "piov_attach", order | {"payload_list": other}, status=409)
    assert refused["field"] == "piov_id"
    assert [row[1] for row in await ask(api, "GET", f"payload-lists/by-name/{lists['Beam']}/intervals")] == [
        "first",
        "second",
    ]


async def half_an_answer(api: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that has asked for everything, and taken the beginning of it."""
    host, port = api.url.removeprefix("http://").split(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)  # or the system would take megabytes for it
    connection.connect((host, int(port)))
    reader, writer = await asyncio.open_connection(sock=connection, limit=1024)
    writer.write(f"GET {PREFIX}gt HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    await reader.readexactly(100)
    return reader, writer


@pytest.mark.parametrize("bytes_s", [0, 60_000])
async def test_a_client_that_takes_all_intervals_slowly_does_not_keep_out_others_for_long(
    bytes_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nested, "SLACK_S", 3.0)
    monkeypatch.setattr(nested, "LEAST_RATE", 5_000_000)
    store = MemoryConditionsStore()
    await fill(store, "physics", types=2, intervals=30_000)
    async with served(store) as api:
        reader, writer = await half_an_answer(api)

        async def trickle() -> None:
            while bytes_s and (piece := await reader.read(bytes_s // 20)):  # noqa: ASYNC110
                await asyncio.sleep(len(piece) / bytes_s)

        trickling = asyncio.create_task(trickle())
        async with asyncio.timeout(60):
            whole = (await api.client.get("globalTag/physics")).content
        assert len(whole) > 15_000_000
        trickling.cancel()
        writer.transport.abort()


async def test_answers_of_everything_wait_for_their_turn_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "WAIT_S", 0.3)
    monkeypatch.setattr(nested, "WAITING", 2)
    store = MemoryConditionsStore()
    await fill(store, "physics", types=2, intervals=30_000)
    async with served(store) as api:
        _, writer = await half_an_answer(api)
        answers = await asyncio.gather(*(api.client.get("gt") for _ in range(5)))
        assert {each.status_code for each in answers} == {503}
        assert "others are being answered with everything" in answers[0].json()["detail"]
        assert answers[0].headers["retry-after"] == "2"
        writer.transport.abort()
        async with asyncio.timeout(60):
            while (await api.client.get("globalTag/physics")).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def test_a_page_of_intervals_is_counted_off_by_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryConditionsStore()
    await fill(store, "physics", types=2, intervals=60)

    async def everything(*_: object) -> object:
        raise AssertionError("all intervals are read")

    monkeypatch.setattr(store, "intervals", everything)
    monkeypatch.setattr(store, "timeline", everything)
    async with served(store) as api:
        for order, sort in (("asc", ""), ("desc", ""), ("desc", "&sort=id")):
            found = await ask(api, "GET", f"piov?page=3&page_size=50&order={order}{sort}")
            ids = [each["id"] for each in found["results"]]
            assert ids == (list(range(101, 121)) if order == "asc" else list(range(20, 0, -1)))
            assert (found["count"], found["page"], found["total_pages"]) == (120, 3, 3)
            assert {each["global_tag"] for each in found["results"]} == {"physics"}
        assert (await ask(api, "GET", "piov?page=4&page_size=50"))["results"] == []
