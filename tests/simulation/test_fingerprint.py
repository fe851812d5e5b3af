"""The fingerprint of the code that is simulated."""

import pytest

from tests.simulation import seeds, world
from tests.simulation.fingerprint import code_of, fingerprint

CODE = """
def least(a, b):
    return min(a, b)
"""


def test_comments_and_docstrings_are_not_in_it() -> None:
    said = '"""A module."""\ndef least(a, b):\n    """The least."""\n    # of two\n    return min(a, b)\n'
    assert code_of(said) == code_of(CODE)


@pytest.mark.parametrize(("of", "to"), [("min", "max"), ("least", "lowest"), ("a, b)", "b, a)")])
def test_what_it_does_is_in_it(of: str, to: str) -> None:
    assert code_of(CODE.replace(of, to)) != code_of(CODE)


def test_that_of_this_code_has_what_a_seed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    code = fingerprint()
    assert len(code) == 16
    monkeypatch.setattr(world, "__file__", seeds.__file__)  # as if what plays a plan had changed
    assert fingerprint() != code
