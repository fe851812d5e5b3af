"""Settings of a run that differ from the configuration's."""

import pytest
from pydantic import ValidationError

from daemon.workloads.visits.settings import with_changes
from schemas.config.visits import VisitsConfig


@pytest.mark.parametrize("changes", [{"visits": 10**30}, {"limit_s": float("nan")}, {"limit_s": float("inf")}])
def test_a_number_that_no_field_holds_is_refused_by_its_field(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as refused:
        with_changes(VisitsConfig(), changes)
    assert [error["loc"] for error in refused.value.errors()] == [tuple(changes)]
