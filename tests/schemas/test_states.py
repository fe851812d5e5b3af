import pytest
from pydantic import TypeAdapter, ValidationError

from schemas.states import STATE_LETTERS, InstrumentState, RunState


def test_a_state_is_one_of_the_words() -> None:
    state = TypeAdapter(RunState)
    assert state.validate_json('"stopped"') is RunState.STOPPED
    with pytest.raises(ValidationError):
        state.validate_json('"elsewhere"')


def test_a_run_is_over_in_every_state_but_those_on_its_way() -> None:
    assert [state for state in RunState if not state.is_over] == [
        RunState.STARTING,
        RunState.RUNNING,
        RunState.STOPPING,
    ]


def test_every_state_of_an_instrument_has_a_letter_of_its_own() -> None:
    assert sorted(STATE_LETTERS.values()) == sorted(InstrumentState)
