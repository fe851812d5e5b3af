"""tests/budgets.py: what grows is refused, what shrinks has to be lowered, and `make budgets` never raises."""

import tomllib
from pathlib import Path

import pytest

from tests.budgets import TOPS, main

MODULE = '"""Module."""\n\n\ndef public() -> None:\n    """Do it."""\n'
SIZE = {"lines": 5, "modules": 1, "docstrings": 1}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in (*TOPS, "tests", "daemon/core", "daemon/core/process"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "module.py").write_text(MODULE)
    budget(tmp_path, **dict.fromkeys((*TOPS, "tests", "daemon/core", "daemon/core/process"), SIZE))
    return tmp_path


def budget(root: Path, **rows: dict[str, int]) -> None:
    lines = [f'"{name}" = {{ {", ".join(f"{k} = {v}" for k, v in row.items())} }}\n' for name, row in rows.items()]
    (root / "budgets.toml").write_text("".join(lines))


def budgets(root: Path) -> dict[str, dict[str, int]]:
    return tomllib.loads((root / "budgets.toml").read_text())


def raised(root: Path, package: str, **figures: int) -> None:
    budget(root, **{**budgets(root), package: {**SIZE, **figures}})


def test_figures_at_their_budgets_pass(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], root) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out == "Budgets: 40 lines, 8 modules, 8 docstrings in 8 packages, 0 problems.\n"


@pytest.mark.parametrize(
    ("added", "figure", "now"),
    [
        ("# one more line\n", "lines", 6),
        ('class A:\n    """An a."""\n', "docstrings", 2),
        ('class A:\n    def b(self) -> None:\n        """Do b."""\n', "docstrings", 2),
    ],
)
def test_a_figure_that_grew_fails(
    root: Path, added: str, figure: str, now: int, capsys: pytest.CaptureFixture[str]
) -> None:
    raised(root, "daemon/core", lines=8 if figure == "docstrings" else 5)
    (root / "daemon/core/module.py").write_text(MODULE + added)
    assert main([], root) == 1
    assert capsys.readouterr().err == (
        f"daemon/core has {now} {figure}, and its budget is {SIZE[figure]}: "
        "make it smaller, or raise the budget in budgets.toml by hand\n"
    )


def test_a_module_counts_once_and_deeper_ones_for_the_second_level(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("daemon/core/process/deep", "tests/one", "tests/javascript/node_modules/gyp"):
        (root / folder).mkdir(parents=True)
        (root / folder / "module.py").write_text("")
    assert main([], root) == 1
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "daemon/core/process has 2 modules, and its budget is 1",
        "tests has 2 modules, and its budget is 1",
    ]


def test_private_docstrings_and_those_of_modules_and_inside_functions_are_free(root: Path) -> None:
    raised(root, "schemas", lines=60)
    (root / "schemas/module.py").write_text(
        MODULE
        + 'def _own() -> None:\n    """Do it."""\n'
        + 'class _Own:\n    def a(self) -> None:\n        """Do it."""\n'
        + 'def bare() -> None:\n    def inner() -> None:\n        """Do it."""\n'
    )
    assert main([], root) == 0


@pytest.mark.parametrize(
    ("figure", "slack"), [("lines", 65), ("lines", 5000), ("modules", 2), ("docstrings", 6), ("docstrings", 1000)]
)
def test_a_figure_that_fell_asks_to_be_lowered(
    root: Path, figure: str, slack: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """`slack` is the highest budget that may stay where it is, of the figures of this tree or of a large one."""
    if slack >= 1000:  # two percent are more than the least slack
        least = slack - slack // 50
        one = "# line\n" if figure == "lines" else 'def f() -> None:\n    """Do it."""\n'
        (root / "schemas/module.py").write_text(one * least)
        other = {"lines": 2 * least, "docstrings": 0} | {figure: slack}
    else:
        other = {figure: slack}
    raised(root, "schemas", **other)
    assert main([], root) == 0
    raised(root, "schemas", **{**other, figure: slack + 2})
    assert main([], root) == 1
    assert capsys.readouterr().err.endswith(f"{figure}, and its budget is {slack + 2}: lower it: `make budgets`\n")
    assert main(["--lower"], root) == 0
    assert budgets(root)["schemas"][figure] < slack


def test_lowering_never_raises_and_says_what_is_left(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raised(root, "schemas", lines=900)
    raised(root, "backends", lines=3)
    (root / "dashboard/module.py").unlink()
    (root / "daemon/web").mkdir()
    (root / "daemon/web/module.py").write_text(MODULE)
    before = budgets(root)
    assert main(["--lower"], root) == 1
    assert capsys.readouterr().err.splitlines() == [
        "backends has 5 lines, and its budget is 3: make it smaller, or raise the budget in budgets.toml by hand",
        'daemon/web has no budget: add to budgets.toml: "daemon/web" = { lines = 5, modules = 1, docstrings = 1 }',
    ]
    after = budgets(root)
    assert after == {name: row for name, row in before.items() if name != "dashboard"} | {"schemas": SIZE}


def test_a_package_that_is_gone_fails_until_it_is_removed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "dashboard/module.py").unlink()
    assert main([], root) == 1
    assert capsys.readouterr().err == "dashboard has a budget and no modules: remove it with `make budgets`\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("<<<<<<< HEAD\n", "correct the file by hand"),
        ("schemas = 3\n", "budgets.toml: schemas needs whole numbers for lines, modules, docstrings, and no more"),
        ('schemas = { lines = 1, modules = 1, docstrings = "1" }\n', "schemas needs whole numbers"),
        ("schemas = { lines = 1, modules = 1 }\n", "schemas needs whole numbers"),
    ],
)
@pytest.mark.parametrize("option", [[], ["--lower"]])
def test_a_file_that_cannot_be_read_is_one_line(
    root: Path, text: str | None, said: str, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = root / "budgets.toml"
    path.unlink()
    if text is not None:
        path.write_text(text)
    assert main(option, root) == 1
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("\n") == 1
    assert (path.read_text() if text is not None else path.exists()) == (text or False)
