"""Compare the size of each package with its budget in budgets.toml: `make lint`. `make budgets` lowers the budgets."""

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOPS = ("schemas", "backends", "daemon", "dashboard", "benchmarks")
FIGURES = ("lines", "modules", "docstrings")
SLACK_PERCENT = 2
SLACK = {"lines": 60, "modules": 1, "docstrings": 5}
"""A figure may be so much below its budget, or SLACK_PERCENT, if that is more, before the budget has to be lowered."""
HEADER = """\
# What each package may have: lines of Python, modules, and docstrings of public classes and functions.
# A module counts once: for its folder, or for the folder two levels below the top that it is in.
# `make lint` compares, and `make budgets` lowers. To raise a budget, write it here, and the reason into the commit.
"""

Sizes = dict[str, dict[str, int]]


class BudgetsError(Exception):
    """The file of budgets cannot be read."""


def docstrings(node: ast.AST) -> int:
    """Count the docstrings of public classes, functions and methods below a node, without those inside functions."""
    found = 0
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found += docstrings(child)
        elif not child.name.startswith("_"):
            found += ast.get_docstring(child) is not None
            found += docstrings(child) if isinstance(child, ast.ClassDef) else 0
    return found


def sizes(root: Path) -> Sizes:
    """Return the figures of every package."""
    found: Sizes = {}
    for top in (*TOPS, "tests"):
        for path in sorted((root / top).rglob("*.py")):
            folders = path.relative_to(root).parent.parts
            if "node_modules" in folders:
                continue
            package = found.setdefault("/".join(folders[: 1 if top == "tests" else 3]), dict.fromkeys(FIGURES, 0))
            text = path.read_text(encoding="utf-8")
            package["lines"] += len(text.splitlines())
            package["modules"] += 1
            package["docstrings"] += docstrings(ast.parse(text))
    return found


def read_budgets(path: Path) -> Sizes:
    """Read the file of budgets."""
    try:
        budgets = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BudgetsError(f"{path.name}: {error}: correct the file by hand") from error
    for package, row in budgets.items():
        if not isinstance(row, dict) or set(row) != set(FIGURES) or any(type(each) is not int for each in row.values()):
            raise BudgetsError(f"{path.name}: {package} needs whole numbers for {', '.join(FIGURES)}, and no more")
    return budgets


def row_of(package: str, figures: dict[str, int]) -> str:
    """Return the row of a package in the file of budgets."""
    return f'"{package}" = {{ {", ".join(f"{name} = {figures[name]}" for name in FIGURES)} }}'


def problems(found: Sizes, budgets: Sizes) -> Iterator[str]:
    """Yield a line for each figure that is above its budget or far below it."""
    for package in sorted({*found, *budgets}):
        if package not in budgets:
            yield f"{package} has no budget: add to budgets.toml: {row_of(package, found[package])}"
        elif package not in found:
            yield f"{package} has a budget and no modules: remove it with `make budgets`"
        else:
            for name in FIGURES:
                figure, budget = found[package][name], budgets[package][name]
                compared = f"{package} has {figure} {name}, and its budget is {budget}"
                if figure > budget:
                    yield f"{compared}: make it smaller, or raise the budget in budgets.toml by hand"
                elif budget - figure > max(SLACK[name], budget * SLACK_PERCENT // 100):
                    yield f"{compared}: lower it: `make budgets`"


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Check the budgets, with `--lower` after lowering them, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.budgets", description=__doc__)
    parser.add_argument("--lower", action="store_true", help="write the present figures where they are smaller")
    lower = parser.parse_args(arguments).lower
    path, found = root / "budgets.toml", sizes(root)
    try:
        budgets = read_budgets(path)
    except BudgetsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if lower:
        budgets = {
            package: {name: min(figure, budgets[package][name]) for name, figure in figures.items()}
            for package, figures in sorted(found.items())
            if package in budgets
        }
        path.write_text(HEADER + "".join(f"{row_of(*row)}\n" for row in budgets.items()), encoding="utf-8")
    wrong = list(problems(found, budgets))
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    totals = (f"{sum(each[name] for each in found.values()):,} {name}" for name in FIGURES)
    sys.stdout.write(f"Budgets: {', '.join(totals)} in {len(found)} packages, {len(wrong)} problems.\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
