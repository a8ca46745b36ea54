"""Where the nodes of a graph stand."""

import networkx
import numpy as np
import pytest

from regard.views.payload import graph_layout
from regard.views.payload.graph_layout import layout_nodes


def graph(n: int):
    """Two dense halves and one tie between them."""
    made = networkx.union(
        networkx.gnp_random_graph(n // 2, 12 / n, 1), networkx.gnp_random_graph(n // 2, 12 / n, 2), rename=("a", "b")
    )
    made = networkx.convert_node_labels_to_integers(made)
    made.add_edge(0, n - 1)
    return np.array(list(made.edges)).T, made


@pytest.mark.parametrize("n", [60, 1000])
def test_neighbours_stand_nearer_than_strangers_and_halves_apart(n):
    ends, _ = graph(n)
    at = layout_nodes(ends[0], ends[1], n)
    order = np.random.default_rng(0).permutation(n)
    near = np.linalg.norm(at[ends[0]] - at[ends[1]], axis=1).mean()
    assert near < 0.6 * np.linalg.norm(at - at[order], axis=1).mean()
    middle = [at[: n // 2].mean(0), at[n // 2 :].mean(0)]
    assert np.linalg.norm(middle[0] - middle[1]) > 0.3


@pytest.mark.parametrize("n", [60, 1000])
def test_places_are_the_same_each_time_whichever_way_edges_point_and_loops_have_no_say(n):
    ends, _ = graph(n)
    first = layout_nodes(ends[0], ends[1], n)
    loops = np.arange(n)
    again = layout_nodes(np.concatenate([ends[1], loops, ends[0]]), np.concatenate([ends[0], loops, ends[1]]), n)
    assert np.array_equal(first, again)
    assert np.abs(first).max() == 1 and np.isfinite(first).all()


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_nodes_and_no_edges_stand_somewhere(n):
    at = layout_nodes(np.zeros(0, np.int64), np.zeros(0, np.int64), n)
    assert at.shape == (n, 2) and np.isfinite(at).all()


def test_a_thousand_nodes_without_edges_do_not_stand_on_one_another():
    at = layout_nodes(np.zeros(0, np.int64), np.zeros(0, np.int64), 1000)
    assert len(np.unique(at.round(3), axis=0)) > 900


def test_repulsion_on_a_mesh_is_that_of_all_pairs():
    at = np.random.default_rng(0).random((300, 2))
    size = 256
    found = graph_layout._repulsion(at, size, graph_layout._kernels(size))
    way = at[:, None] - at[None]
    square = (way**2).sum(-1, keepdims=True)
    step = (at.max(0) - at.min(0)).max() / (size - 2)
    exact = (way / (square + step**2)).sum(1)  # soft within a step, as the mesh is
    far = np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1).mean()
    assert np.median(far) < 0.03
