"""Positions against a computation reading by reading, and what a payload may be."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.conditions.calibration import (
    BPM_DTYPE,
    BUTTONS,
    UNCALIBRATED,
    PayloadRefused,
    bpm_payload,
    bpm_payload_of_rows,
    positions,
    table_of,
)
from schemas.readings import InstrumentGroup
from tests.support.calibrations import slow_position

GROUP = InstrumentGroup(name="bpm", instruments=("bpm_000", "bpm_001", "bpm_002"), channels=())
ROW = {"instrument": "bpm_001", **{f"gain_{button}": 1.0 + k / 100 for k, button in enumerate(BUTTONS)}}

counts = st.integers(-(2**31), 2**31 - 1)
lengths = st.floats(-50, 50, allow_nan=False)
factors = st.floats(0.5, 2)
calibrations = st.tuples(
    *([factors] * 4), lengths, lengths, st.floats(-math.pi, math.pi), st.floats(1, 50), st.floats(1, 50)
)
readings = st.tuples(st.tuples(*([counts] * 4)), st.none() | calibrations)


@given(st.lists(readings, min_size=1, max_size=20))
def test_positions_are_those_of_each_reading_by_itself(read: list[tuple[tuple[int, ...], Any]]) -> None:
    buttons = np.array([values for values, _ in read], np.int32)
    used = np.array([(np.nan,) * 9 if one is None else one for _, one in read], BPM_DTYPE)
    x, y = positions(*buttons.T, used)
    for k, (values, one) in enumerate(read):
        expected = (
            (math.nan, math.nan) if one is None else slow_position(values, dict(zip(BPM_DTYPE.names, one, strict=True)))
        )
        np.testing.assert_allclose((x[k], y[k]), expected, rtol=1e-7, atol=1e-7)


def test_a_sum_of_nothing_is_no_position_and_a_calibration_of_one_is_the_raw_one() -> None:
    one = np.array([1, 0, 5], np.int32)
    x, y = positions(one, one, one * 0, one * 0)
    np.testing.assert_array_equal(x, [20.0, np.nan, 20.0])
    np.testing.assert_array_equal(y, [0.0, np.nan, 0.0])
    same = positions(one, one, one * 0, one * 0, np.full(3, UNCALIBRATED))
    np.testing.assert_array_equal((x, y), same)


def test_a_quarter_turn_brings_x_to_y() -> None:
    turned = UNCALIBRATED.copy()
    turned["rotation_rad"], turned["x0_mm"] = math.pi / 2, 1.0
    one = np.array([1.0])
    x, y = positions(2 * one, 2 * one, one, one, turned)
    np.testing.assert_allclose((x[0], y[0]), (0.0, 20 * 2 / 6 - 1), atol=1e-12)


def test_a_payload_is_laid_out_by_the_numbers_of_the_group() -> None:
    rows = [{**ROW, "k_x_mm": 17}, {**ROW, "instrument": "removed_since"}]
    found = table_of(bpm_payload(json.dumps({"kind": "bpm", "instruments": rows}).encode()), GROUP)
    assert found[1].tolist() == (1.0, 1.01, 1.02, 1.03, 0.0, 0.0, 0.0, 17.0, 10.0)
    assert np.isnan([found[0].tolist(), found[2].tolist()]).all()
    np.testing.assert_equal(found.tolist(), table_of(bpm_payload_of_rows(rows), GROUP).tolist())


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{**ROW, "gain_top_in": 0}], "instruments[0].gain_top_in: 0 is out of range; use a number above 0"),
        ([{**ROW, "x0_mm": None}], "instruments[0].x0_mm: the value is not a number; use a number"),
        ([{**ROW, "x0_mm": "1.5"}], "instruments[0].x0_mm: '1.5' is not a number; write it without quotes"),
        ([{**ROW, "rotation_rad": 90}], "instruments[0].rotation_rad: 90 is out of range"),
        ([ROW, ROW], "instruments: it has 'bpm_001' 2 times; give each instrument once"),
        ([{**ROW, "gain_top": 1.0}], "instruments[0].gain_top: unknown key; did you mean `gain_top_in`?"),
        ([{"instrument": "bpm_001"}], "instruments[0].gain_top_in: missing; give it: Factor of the channel top_in"),
        ([], "instruments:"),
    ],
)
def test_a_payload_that_is_wrong_is_refused_with_field_and_fix(rows: list[dict[str, Any]], says: str) -> None:
    for read in (lambda: bpm_payload_of_rows(rows), lambda: bpm_payload(as_json(rows))):
        with pytest.raises(PayloadRefused) as refused:
            read()
        assert str(refused.value).startswith(says)


def test_not_a_number_and_another_kind_are_refused() -> None:
    for content, says in (
        (as_json([{**ROW, "k_x_mm": math.nan}]), "instruments[0].k_x_mm: nan is not a finite number; use a number"),
        (b'{"kind": "blm", "instruments": []}', "kind: 'blm' is not known here; did you mean `bpm`?"),
        (b"PK\3\4", "(file): it is neither JSON nor Parquet"),
    ):
        with pytest.raises(PayloadRefused) as refused:
            bpm_payload(content)
        assert str(refused.value).startswith(says)
    with pytest.raises(PayloadRefused, match="k_x_mm: nan is not a finite number"):
        bpm_payload_of_rows([{**ROW, "k_x_mm": math.nan}])


def test_a_payload_of_other_instruments_is_refused() -> None:
    with pytest.raises(PayloadRefused, match="it has none of the instruments of group bpm; give"):
        table_of(bpm_payload_of_rows([{**ROW, "instrument": "blm_1"}]), GROUP)


def as_json(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps({"kind": "bpm", "instruments": rows}).encode()
