"""The data of a run: what is inserted has what snapshots are expected to have."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.workloads.snapshots.data import BLOCK_BYTES, Data
from schemas.api.snapshots import SnapshotSettings
from schemas.folders.folders import check_new_folder

SIZES = {
    "folders": st.integers(1, 4),
    "channels": st.integers(1, 30),
    "intervals": st.integers(2, 9),
    "interval_s": st.floats(0.001, 1000),
    "chunk_s": st.floats(0.001, 500),
    "order": st.sampled_from(["time", "channel"]),
    "payload": st.sampled_from(["random", "constant"]),
    "payload_bytes": st.integers(1, 40),
}
SETTINGS = st.fixed_dictionaries(SIZES).map(SnapshotSettings.model_validate)


def whole(data: Data, folder: int) -> np.ndarray:
    """All that is inserted into a folder."""
    return np.concatenate([data.insertion(folder, number).block for number in range(data.insertions)])


@given(SETTINGS, st.integers(0, 1000), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_snapshots_are_whole_and_changes_are_counted(of: SnapshotSettings, first: int, second: int) -> None:
    data = Data(of)
    after, upto = sorted((data.at(first), data.at(second)))
    for folder in range(data.folders):
        check_new_folder(data.new_folder(folder))
        rows = whole(data, folder)
        assert len(rows) == data.rows_a_folder
        valid = rows[(rows["since"] <= upto) & (rows["until"] > upto)]
        assert sorted(valid["channel"].tolist()) == list(range(data.channels))
        begun = rows[(rows["since"] > after) & (rows["since"] <= upto)]
        assert len(begun) == data.rows_begun(folder, after, upto)


def test_both_orders_insert_the_same_intervals_of_random_or_constant_values() -> None:
    found = {}
    for order in ("time", "channel"):
        of = SnapshotSettings(folders=2, channels=7, intervals=5, order=order, payload="constant")  # type: ignore[arg-type]
        rows = whole(Data(of), 1)
        assert set(rows["value"].tolist()) == {b"0" * 1000}
        found[order] = rows[np.lexsort((rows["channel"], rows["since"]))].tolist()
    assert found["time"] == found["channel"]
    random = Data(SnapshotSettings(channels=7, intervals=5, payload_bytes=20))
    assert len(set(whole(random, 0)["value"].tolist())) == 35
    assert whole(random, 0)["value"].tolist() == whole(random, 0)["value"].tolist()
    assert whole(random, 0)["value"].tolist() != whole(random, 1)["value"].tolist()


def test_the_papers_data_are_the_default() -> None:
    data = Data(SnapshotSettings())
    assert (data.folders, data.channels, data.intervals) == (100, 1000, 60)
    assert data.length_ns == 300 * 10**9
    assert data.stagger_ns == 3_000_000
    begun = [data.rows_begun(folder, data.at(3), data.at(4)) for folder in range(100)]
    assert sum(begun) == 100_000 // 60  # in 5 s a sixtieth of a snapshot changes
    assert data.rows_an_insertion * data.new_folder(0).dtype.itemsize <= BLOCK_BYTES
    assert data.rows_of(data.insertions) == 60_000


def test_the_control_sample_is_one_channel() -> None:
    data = Data(SnapshotSettings(sample="control", folders=3, channels=50))  # type: ignore[arg-type]
    rows = whole(data, 0)
    assert (data.folders, data.channels, len(rows)) == (1, 1, 150)
    assert np.diff(rows["since"]).tolist() == [10**9] * 149


def test_settings_that_give_other_data_have_a_set_of_their_own() -> None:
    changes = (
        *({"layout": "channel-max"}, {"folders": 2}, {"channels": 2}, {"intervals": 3}, {"interval_s": 60.0}),
        *({"payload": "constant"}, {"payload_bytes": 9}, {"order": "channel"}, {"sample": "control"}, {}),
    )
    assert len({Data(SnapshotSettings.model_validate(each)).top for each in changes}) == len(changes)
    same = ({"clients": 3}, {"scale": 0.5}, {"cycles": 2}, {"chunk_s": 60.0}, {"ask": "changes"})
    assert {Data(SnapshotSettings.model_validate(each)).top for each in same} == {Data(SnapshotSettings()).top}
