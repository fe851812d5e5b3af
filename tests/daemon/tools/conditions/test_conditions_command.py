"""`triggerlog conditions` against a real server of conditions, on a real database."""

import hashlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.conditions.scenarios import SCENARIOS, intervals_of, random_keys, type_name, valid_at
from daemon.tools.conditions.files import FileWriter
from schemas.conditions.intervals import Key
from tests.support.processes import free_port, here, running, until

pytestmark = pytest.mark.slow

CONFIGURATION = """
[[groups]]
name = "bpm"
count = 2
channels = [{{ name = "x" }}]
[database]
dsn = "{dsn}"
schema = "conditions_command"
[conditions]
schema = "conditions_command_conditions"
port = {port}
"""


@dataclass(frozen=True, kw_only=True)
class Server:
    file: Path
    url: str

    def asked(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return here("conditions", *arguments, "--config", str(self.file))

    def says(self, *arguments: str) -> str:
        done = self.asked(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tells(self, *arguments: str) -> Any:
        return json.loads(self.says(*arguments, "--json"))

    def refuses(self, *arguments: str) -> str:
        done = self.asked(*arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1
        return done.stderr.removeprefix("triggerlog: ").rstrip("\n")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, postgresql_dsn: str) -> Iterator[Server]:
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    file, url = folder / "beam.toml", f"http://127.0.0.1:{port}"
    file.write_text(CONFIGURATION.format(dsn=postgresql_dsn, port=port))
    with running("conditions", "serve", str(file)) as run:
        until(lambda: answers(url) or run.process.poll() is not None, "the server answers")
        assert run.process.poll() is None, run.said
        yield Server(file=file, url=url)
        assert run.end() == 0, run.said


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/cdb_rest/gtstatus", trust_env=False, timeout=60).is_success
    except httpx.TransportError:
        return False


def test_a_tag_is_made_filled_looked_at_and_frozen(server: Server, tmp_path: Path) -> None:
    payload = tmp_path / "a.json"
    payload.write_bytes(b'{"kind": "bpm"}')
    sha256 = hashlib.sha256(payload.read_bytes()).hexdigest()
    assert server.says("add-tag", "spring", "--author", "A. O.") == "spring: added, unlocked\n"
    assert server.says("add-type", "bpm") == "bpm: added\n"
    assert server.says("show", "spring").endswith("by A. O.\nIt has no payload list.\n")
    said = server.says("attach", "spring", "bpm", "bpm/a.json", "12", "--payload", str(payload))
    assert said == "spring: bpm/a.json is valid for bpm from 12 0 on\n"
    server.says("attach", "spring", "bpm", "bpm/b.json", "13", "4000", "--end", "14", "0", "--checksum", "00" * 32)
    assert server.tells("history", "spring", "bpm") == [
        {"start": [12, 0], "end": [13, 4000], "url": "bpm/a.json", "checksum": sha256, "size": 15},
        {"start": [13, 4000], "end": [14, 0], "url": "bpm/b.json", "checksum": "00" * 32, "size": None},
        {"start": [14, 0], "end": None, "url": "bpm/a.json", "checksum": sha256, "size": 15},
    ]
    head, *lines = server.says("history", "spring", "bpm").splitlines()
    assert head.split() == ["start", "end", "url", "checksum", "size"]
    assert lines[-1].split() == ["14", "0", "open", "bpm/a.json", sha256[:12], "15"]
    (valid,) = server.tells("at", "spring", "13", "3999")
    assert (valid["type"], valid["url"], valid["end"]) == ("bpm", "bpm/a.json", [13, 4000])
    assert server.says("at", "spring", "11") == "Nothing is valid there.\n"
    assert server.says("lock", "spring") == "spring: locked\n"
    assert server.says("unlock", "spring") == "spring: unlocked\n"
    assert "add --yes to freeze it" in server.refuses("freeze", "spring")
    assert server.says("freeze", "spring", "--yes") == "spring: frozen\n"
    assert "frozen" in server.refuses("attach", "spring", "bpm", "bpm/c.json", "20")
    (row,) = [each for each in server.tells("tags") if each["tag"] == "spring"]
    assert (row["status"], row["types"], row["intervals"], row["author"]) == ("frozen", 1, 3, "A. O.")
    assert {"type": "bpm"} in server.tells("types")


def test_a_clone_differs_where_it_was_changed(server: Server) -> None:
    server.says("add-tag", "base")
    server.says("add-type", "gain")
    server.says("attach", "base", "gain", "gain/a.json", "1")
    assert server.says("clone", "base", "fixed") == "fixed: a clone of base, unlocked\n"
    assert server.says("diff", "base", "fixed") == "There is no difference.\n"
    server.says("attach", "fixed", "gain", "gain/b.json", "5", "--end", "6", "7")
    assert server.tells("diff", "base", "fixed") == [
        {
            "type": "gain",
            "start": [5, 0],
            "end": [6, 7],
            "base": {"url": "gain/a.json", "checksum": ""},
            "fixed": {"url": "gain/b.json", "checksum": ""},
        }
    ]
    head, line = server.says("diff", "base", "fixed").splitlines()
    assert (head.split(), line.split()) == (
        ["type", "start", "end", "base", "fixed"],
        ["gain", "5", "0", "6", "7", "gain/a.json", "gain/b.json"],
    )


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_an_import_is_exported_the_same_and_repeated_without_effect(
    server: Server, tmp_path: Path, ending: str
) -> None:
    scenario, tag = SCENARIOS["tiny-moderate"], f"scenario{ending}"
    file, again = tmp_path / f"x{ending}", tmp_path / f"y{ending}"
    writer = FileWriter(file, ending)
    for number in range(scenario.types):
        writer.write(type_name(number), intervals_of(scenario, number, seed=2))
    writer.close()
    assert server.says("import", tag, str(file)).startswith(f"{tag}: 2,000 intervals attached, in ")
    assert server.says("export", tag, str(again)).startswith(f"{again}: 2,000 intervals of {tag}, ")
    assert again.read_bytes() == file.read_bytes()
    before = next(each for each in server.tells("tags") if each["tag"] == tag)
    assert server.says("import", tag, str(file)).startswith(f"{tag}: 0 intervals attached, 2,000 were there, in ")
    assert next(each for each in server.tells("tags") if each["tag"] == tag) == before
    for major, minor in random_keys(3, seed=2).tolist():
        found = {each["type"]: each["url"] for each in server.tells("at", tag, str(major), str(minor))}
        assert found == valid_at(scenario, Key(major, minor), seed=2)
    assert "exists; give another name, or --force" in server.refuses("export", tag, str(again))
    nowhere = tmp_path / "none" / f"z{ending}"
    says = f"FILE: {nowhere} cannot be written (no such file or directory); name a file in a folder that is there"
    assert server.refuses("export", tag, str(nowhere)) == says


def test_an_import_that_was_cut_short_goes_on(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.tools.conditions.files.BATCH", 2)
    file = tmp_path / "x.jsonl"
    rows = [{"type": "cut", "url": f"{k}", "checksum": "", "major": k, "minor": 0} for k in range(5)]
    rows[3]["url"] = "x" * 300  # too long: the batch that has it is refused
    file.write_text("\n".join(map(json.dumps, rows)))
    assert "payload_url" in server.refuses("import", "cut", str(file))
    assert [each["url"] for each in server.tells("history", "cut", "cut")] == ["0", "1"]
    rows[3]["url"] = "3"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert server.says("import", "cut", str(file)).startswith("cut: 3 intervals attached, 2 were there")
    found = server.tells("history", "cut", "cut")
    assert [each["url"] for each in found] == ["0", "1", "2", "3", "4"]
    assert found[-1]["end"] is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "nothing"], "nothing"),
        (["at", "nothing", "1"], "nothing"),
        (["history", "nothing", "bpm"], "nothing"),
        (["at", "nothing", str(2**63)], f"MAJOR MINOR: {2**63} is no half of a key; give 0 to {2**63 - 1}"),
        (["attach", "nothing", "bpm", "u", "5", "--end", "5", "0"], "--end: 5 0 is not after 5 0; give a later key"),
        (["attach", "nothing", "bpm", "u", "5"], "nothing"),
        (["attach", "nothing", "bpm", "u", "5", "--payload", "/none"], "--payload: /none cannot be read"),
        (["clone", "nothing", "other"], "nothing"),
        (["lock", "nothing"], "nothing"),
        (["add-type", "a/b"], "name"),
        (["import", "nothing", "x.csv"], "FILE: x.csv does not say the format"),
        (["import", "nothing", "/none.jsonl"], "FILE: /none.jsonl cannot be read (no such file or directory); name a"),
        (["import", "nothing", "/none.parquet"], "FILE: /none.parquet cannot be read (no such file or directory); "),
        (["export", "nothing", "x.parquet"], "nothing"),
    ],
)
def test_what_is_wrong_is_one_line(server: Server, arguments: list[str], says: str) -> None:
    assert says in server.refuses(*arguments)
    assert "nothing" not in server.says("tags")


def test_a_type_that_is_mistyped_is_suggested_and_a_name_that_is_taken_refused(server: Server) -> None:
    server.says("add-tag", "typo")
    server.says("add-type", "field_map")
    server.says("attach", "typo", "field_map", "u", "1")
    says = "TYPE: typo has no list of type 'field_mop'; did you mean `field_map`?"
    assert server.refuses("history", "typo", "field_mop") == says
    assert "typo" in server.refuses("add-tag", "typo")
    assert "field_map" in server.refuses("add-type", "field_map")


def test_orders_need_the_token_and_looking_does_not(server: Server) -> None:
    assert here("conditions", "tags", "--server", server.url).returncode == 0
    refused = here("conditions", "add-tag", "stranger", "--server", server.url)
    assert refused.returncode == 1
    assert "give --token-file or TRIGGERLOG_TOKEN" in refused.stderr
    assert "stranger" not in server.says("tags")


def test_where_no_server_is_that_is_said(tmp_path: Path) -> None:
    refused = here("conditions", "tags", "--server", f"http://127.0.0.1:{free_port()}")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("triggerlog: no server of conditions at http://127.0.0.1:")
    assert refused.stderr.endswith("start it with `triggerlog conditions serve FILE`\n")
    file = tmp_path / "beam.toml"
    file.write_text(CONFIGURATION.format(dsn="postgresql://nobody@127.0.0.1:1/none", port=0))
    any_port = here("conditions", "tags", "--config", str(file))
    assert any_port.stderr == (
        "triggerlog: conditions.port is 0, which takes any free port;"
        " give the address of the server of conditions with --server\n"
    )
    wrong = here("conditions", "tags", "--server", "127.0.0.1")
    assert "--server: '127.0.0.1' is no address of a server of conditions; write it like http" in wrong.stderr
