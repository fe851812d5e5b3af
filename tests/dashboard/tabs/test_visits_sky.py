import math

import plotly.graph_objects as go
import pytest

from dashboard.tabs.visits.runs import Visit
from dashboard.tabs.visits.sky import FIELD, described, distance, field, outline, pointing, sky
from schemas.api.visits import VisitsFigures
from tests.page.visits import figures_of

FIGURES = VisitsFigures.model_validate(figures_of(300, 900, 0.5))


def visit(ra: float, decl: float) -> Visit:
    return Visit(visit=1299, ra=ra, decl=decl, select_s=0.1, store_s=0.1)


def test_equal_areas_of_the_sky_are_equal_on_the_map() -> None:
    for decl in (-80.0, -45.0, 0.0, 60.0):
        cap_sr = 2 * math.pi * (1 + math.sin(math.radians(decl)))
        assert math.pi * distance(decl) ** 2 == pytest.approx(cap_sr)


@pytest.mark.parametrize(("ra", "decl"), [(10.0, -70.0), (200.0, -89.5), (359.0, 20.0)])
def test_the_field_has_its_true_size_wherever_it_is(ra: float, decl: float) -> None:
    points = outline(ra, decl, 1.75)
    assert (points[0][0] % 360, points[0][1]) == pytest.approx((points[-1][0] % 360, points[-1][1]))
    middle = _unit(ra, decl)
    for point in points:
        cosine = sum(a * b for a, b in zip(middle, _unit(*point), strict=True))
        assert math.degrees(math.acos(cosine)) == pytest.approx(1.75)


def _unit(ra: float, decl: float) -> tuple[float, float, float]:
    a, d = math.radians(ra), math.radians(decl)
    return math.cos(d) * math.cos(a), math.cos(d) * math.sin(a), math.sin(d)


def test_the_map_has_the_field_over_earlier_pointings_and_reaches_as_far_as_these() -> None:
    figure = sky(FIGURES, visit(30.0, -70.0))
    assert go.Figure(figure).layout.polar.angularaxis.direction == "clockwise"
    assert len(figure["data"][0]["r"]) == 300
    assert figure["data"][FIELD] == field(visit(30.0, -70.0), 3.5)
    polar = figure["layout"]["polar"]
    # Up to 25.8 degrees from the pole with half a field of 3.5.
    assert polar["radialaxis"]["range"] == [0, distance(-60)]
    assert polar["radialaxis"]["ticktext"] == ["−80°", "−70°"]
    assert polar["angularaxis"]["ticktext"][:2] == ["0h", "2h"]
    wide = sky(FIGURES, visit(30.0, 40.0))["layout"]["polar"]["radialaxis"]
    assert (wide["range"], wide["ticktext"][-1]) == ([0, 2.0], "+60°")


def test_before_the_first_visit_the_map_is_empty() -> None:
    figure = sky(None, None)
    assert [trace["r"] for trace in go.Figure(figure).data] == [(), ()]
    assert figure["layout"]["polar"]["radialaxis"]["range"] == [0, distance(-80)]
    assert pointing(None, 3.5) == "no visit yet"


def test_where_it_looked_is_said_in_words() -> None:
    words = pointing(visit(305.44, -69.08), 3.5)
    assert words == "visit 1,299 at RA 305.4°, Dec −69.1° · field 3.5° across"
    assert described(words, FIGURES).endswith("field 3.5° across, 300 earlier pointings faint")
