"""The Markdown documents: lines that fit, links that lead somewhere, commands that exist, and an index of decisions."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dashboard.own_tabs

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("systemd/*.md")])
DECISIONS = ROOT / "docs" / "decisions"
GENERATED = ROOT / "docs" / "configuration.md"
WIDTH = 100

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a document without those of code blocks, tables and images."""
    fence, code, before = "", False, ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(```+)", line)
        code = line.startswith("    ") and (code or not before.strip())
        before = line
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1] == fence:
            fence = ""
        elif not fence and not code and not re.match(r"\s*\||!\[", line):
            yield number, line


def breakable(line: str) -> bool:
    """Whether a line could be shorter: it has more than a list mark and one word, such as a long address."""
    return len(line.strip().removeprefix("- ").split(" ")) > 1


@every_document
def test_lines_are_wrapped(document: Path) -> None:
    if document == GENERATED:
        pytest.skip("`make reference` writes it, and the models give its sentences")
    long = [number for number, line in prose(document.read_text()) if len(line) > WIDTH and breakable(line)]
    assert not long, f"lines {long} have more than {WIDTH} columns"


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = [line.lstrip("#").strip() for _, line in prose(document.read_text()) if re.match(r"#+ ", line)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_document
def test_every_link_leads_somewhere(document: Path) -> None:
    text = "\n".join(line for _, line in prose(document.read_text()))
    text += "".join(re.findall(r"^(?:\s*\||!\[).*$", document.read_text(), re.MULTILINE))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = document.parent / name if name else document
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def shown_commands(text: str) -> str:
    """What a document shows in backticks, in `sh` blocks, and indented by four, a line each."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", text), *re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE)])


def test_every_make_target_is_described_and_none_that_does_not_exist() -> None:
    exist = set(re.findall(r"^([a-z][a-z-]*):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    described = set(re.findall(r"^\| `make ([a-z-]+)", (ROOT / "docs" / "engineering.md").read_text(), re.MULTILINE))
    assert described == exist
    for document in DOCUMENTS:
        named = re.findall(r"^make ([a-z][a-z-]*)", shown_commands(document.read_text()), re.MULTILINE)
        assert set(named) <= exist, document.name


def test_the_tab_that_is_shown_is_the_example() -> None:
    (shown,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "own-tab.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert shown == (ROOT / "docs" / "examples" / "orbit_fft.py").read_text()


def test_what_a_tab_may_use_is_described() -> None:
    text = (ROOT / "docs" / "own-tab.md").read_text()
    assert [name for name in dashboard.own_tabs.__all__ if not re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", text)] == []


def test_every_reason_for_refusing_readings_is_described() -> None:
    files = [file for part in ("pipeline", "sources") for file in (ROOT / "daemon" / part).rglob("*.py")]
    code = "\n".join(file.read_text() for file in files)
    reasons = {"unknown_instrument", "impossible_trigger", *re.findall(r'\b_?(?:refuse|drop)\("([^"]+)"', code)}
    assert {"no_room_aside", "backlog", "partial_record"} <= reasons
    described = " ".join(re.findall(r"^\| (`.*`) \|", (ROOT / "docs" / "protocol.md").read_text(), re.MULTILINE))
    assert [reason for reason in sorted(reasons) if f"`{reason}`" not in described] == []


def test_every_document_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for document in ROOT.glob("docs/*.md"):
        assert document.name == "README.md" or f"({document.name}" in index, document.name


def test_every_decision_is_in_the_index_once_with_its_status() -> None:
    lines = (DECISIONS / "README.md").read_text().splitlines()
    decisions = sorted(DECISIONS.glob("[0-9]*.md"))[1:]
    assert len(decisions) > 40
    for decision in decisions:
        (line,) = (line for line in lines if f"]({decision.name})" in line)
        replaced = re.search(r"^Status: replaced by (\d{4})$", decision.read_text(), re.MULTILINE)
        assert bool(replaced) == ("replaced by" in line), decision.name


def test_decisions_follow_the_template() -> None:
    template, *decisions = sorted(DECISIONS.glob("[0-9]*.md"))
    headings = re.findall(r"^## .*$", template.read_text(), re.MULTILINE)
    assert template.name == "0000-template.md"
    for decision in decisions:
        text = decision.read_text()
        assert text.startswith(f"# {decision.name[:4]}: "), decision.name
        assert re.search(r"^Status: (proposed|accepted|replaced by \d{4})$", text, re.MULTILINE), decision.name
        assert re.findall(r"^## .*$", text, re.MULTILINE) == headings, decision.name
