"""The mutants still fit the sources: `make simulate-mutants` runs them, which takes an hour."""

import pytest

from tests.simulation.mutants import MUTANTS, PLANS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_a_mutant_takes_out_is_there_once(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.text) == 1
    assert mutant.plan is None or (PLANS / f"{mutant.plan}.json").is_file()
