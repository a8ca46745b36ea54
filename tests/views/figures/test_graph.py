"""A graph drawn by its weights: what is broad, where it points, what is refused."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed: there are no figures.")

from matplotlib.colors import to_hex  # noqa: E402
from matplotlib.patches import FancyArrowPatch  # noqa: E402

from regard import Edges, attend  # noqa: E402
from regard.views import graph_map  # noqa: E402

EDGES = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]])  # the last one is a loop
PLACES = [[0, 0], [1, 0], [0, 1]]


def arcs(axes) -> list[FancyArrowPatch]:
    return [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]


def test_an_arc_is_as_broad_and_dark_as_its_weight_and_has_the_colour_of_the_attended():
    axes = graph_map([0.2, 0.4, 0.1, 0.9], EDGES, PLACES, colours=["#ff0000", "#00ff00", "#0000ff"], top=0.4)
    drawn = {to_hex(arc.get_facecolor()): arc for arc in arcs(axes)}
    breadth = {colour: arc.get_arrowstyle().tail_width for colour, arc in drawn.items()}
    assert_allclose([breadth[c] for c in ("#ff0000", "#00ff00", "#0000ff")], [0.31, 0.62, 0.155], atol=1e-3)
    assert drawn["#00ff00"].get_alpha() > drawn["#ff0000"].get_alpha() > drawn["#0000ff"].get_alpha()


def test_an_arc_is_broad_at_the_attended_and_a_point_at_the_attending():
    axes = graph_map([1.0], [[0], [1]], [[0, 0], [1, 0]], ax=plt.subplots()[1])
    axes.figure.canvas.draw()
    corners = arcs(axes)[0].get_path().vertices
    left, right = (corners[np.abs(corners[:, 0] - edge) < 0.03] for edge in (corners[:, 0].min(), corners[:, 0].max()))
    assert np.ptp(left[:, 1]) > 5 * np.ptp(right[:, 1])


def test_loops_are_not_drawn_and_squares_are():
    axes = graph_map([0.2, 0.4, 0.1, 0.9], EDGES, PLACES, squares=[1], names=["a", "b", "c"])
    assert len(arcs(axes)) == 3
    assert [line.get_marker() for line in axes.lines[::2]] == ["o", "s", "o"]
    assert [text.get_text() for text in axes.texts] == ["a", "b", "c"]


def test_a_map_of_one_head_is_drawn_by_its_weights_on_the_callers_edges():
    x = torch.randn(3, 4)
    amap = attend(x, x, x, over=Edges(EDGES, size=(3, 3))).map
    assert len(arcs(graph_map(amap, EDGES, PLACES))) == 3
    assert not arcs(graph_map(torch.zeros(0), torch.zeros(2, 0), PLACES))


def test_several_heads_and_missing_places_are_refused_with_what_to_type():
    with pytest.raises(ValueError, match=r"draws one head.*amap\.edges\(\)\[head\]"):
        graph_map(torch.ones(2, 4), EDGES, PLACES)
    with pytest.raises(ValueError, match="needs a position"):
        graph_map(torch.ones(4), EDGES, PLACES[:2])


def test_numbers_of_nodes_are_names_too():
    axes = graph_map(torch.tensor([0.4, 0.6]), torch.tensor([[0, 1], [1, 0]]), names=torch.arange(7, 9).tolist())
    assert [text.get_text() for text in axes.texts] == ["7", "8"]


def test_a_long_name_is_written_smaller_so_that_it_stays_on_its_node():
    axes = graph_map(torch.tensor([0.4, 0.6]), torch.tensor([[0, 1], [1, 0]]), names=["7", "2708"])
    short, long = (text.get_fontsize() for text in axes.texts)
    assert 4 * long <= 2.2 * short + 1e-9
