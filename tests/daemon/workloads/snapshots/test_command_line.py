"""Settings as the command line says them, there and back."""

import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from daemon.tools.workloads import snapshots
from daemon.workloads.snapshots.runner import command_of, with_changes
from schemas.api.snapshots import SnapshotSettings

CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "schema": st.sampled_from(["sky", "other_2"]),
        "layout": st.sampled_from(["window", "channel-max", "arrays"]),
        "folders": st.integers(1, 1000),
        "interval_s": st.floats(0.001, 1000),
        "payload": st.sampled_from(["random", "constant"]),
        "order": st.sampled_from(["time", "channel"]),
        "ask": st.sampled_from(["snapshot", "changes"]),
        "processes": st.integers(1, 200),
        "chunk_s": st.floats(0.001, 1000),
        "cycle_s": st.floats(0.001, 1000),
        "cycles": st.integers(0, 50),
        "scale": st.floats(0.001, 10),
        "cliff": st.booleans(),
    },
)


@given(CHANGES)
@settings(max_examples=40, deadline=None)
def test_the_command_of_settings_gives_the_same_settings(changes: dict[str, Any]) -> None:
    wanted, found = with_changes(changes), list[SnapshotSettings]()

    def caught(given: dict[str, Any]) -> SnapshotSettings:
        found.append(with_changes(given))
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "_settings", caught)
        words = shlex.split(command_of(wanted))
        assert words[:3] == ["triggerlog", "snapshots", "run"]
        CliRunner().invoke(snapshots.app, words[2:])
    assert found == [wanted]


def test_settings_that_do_not_fit_are_refused_with_their_field() -> None:
    result = CliRunner().invoke(snapshots.app, ["run", "--clients", "5000"])
    assert result.exit_code == 1
    assert "clients: " in str(result.exception)
