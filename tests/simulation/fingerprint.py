"""Which code was simulated: a run of seeds can go on another day, and two parts with one fingerprint are one run."""

import ast
import hashlib
import sys
from pathlib import Path

PACKAGES = (
    "daemon.client.sender",
    "daemon.core.outside",
    "daemon.pipeline",
    "daemon.sources",
    "backends",
    "schemas.batch",
    "schemas.config.processing",
    "schemas.ledger",
    "schemas.readings",
    "schemas.sessions",
    "schemas.wire",
    "tests.simulation",
)
"""The way of a reading, and what makes it fail. What is imported besides checks a configuration, or tells a status."""


def fingerprint() -> str:
    """A hash over the imported modules of `PACKAGES`, without their comments and docstrings: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, module in sorted(sys.modules.items()):
        if any(name == package or name.startswith(f"{package}.") for package in PACKAGES):
            assert module.__file__ is not None
            digest.update(f"{name}\n{code_of(Path(module.__file__).read_text(encoding='utf-8'))}\n".encode())
    return digest.hexdigest()[:16]


def code_of(source: str) -> str:
    """What a module does, as text: neither its layout nor its comments and docstrings are in it."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            # Also what stands behind an attribute: a text alone does nothing.
            node.body = [each for each in body if not _is_text(each)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
