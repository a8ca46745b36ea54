"""What a page carries of attention over a graph: the edges that ran and their weights, exactly."""

import numpy as np
import pytest
import torch
from tests.views.reading import array
from torch.testing import assert_close

import regard
from regard.recording.capture.edges.edge_maps import CapturedEdges, EdgeMap
from regard.views import GraphNodes
from regard.views.page import html_of, page_data
from regard.views.payload import graph_payload

# 1 -> 0 twice, a loop of the caller's at 2, node 4 by itself
EDGES = torch.tensor([[1, 1, 0, 2, 3, 0], [0, 0, 1, 2, 2, 3]])


def over(self_loops=False, heads=3, n=5):
    torch.manual_seed(0)
    q, k = torch.randn(heads, n, 4), torch.randn(heads, n, 4)
    return regard.attend(q, k, k, over=regard.Edges(EDGES, self_loops=self_loops)).map


def read(what, **how):
    """The page's description, and the edges of each of its sites."""
    data, texts = page_data(what, **how)
    names = ("start", "source", "edge", "weights")
    return data, [{name: array(texts, site[name]) for name in names} for site in data["sites"]]


def dense(parts, n, m):
    """The matrix that the carried edges stand for."""
    target = torch.repeat_interleave(torch.arange(n), parts["start"].diff())
    made = torch.zeros(parts["weights"].shape[0], n * m)
    return made.index_add_(1, target * m + parts["source"], parts["weights"]).reshape(-1, n, m)


@pytest.mark.parametrize("self_loops", [False, True])
def test_the_edges_of_a_page_give_the_map_back_bit_for_bit(self_loops):
    amap = over(self_loops)
    data, (parts,) = read(amap)
    assert data["sites"][0]["form"] == "edges" and data["sites"][0]["edges"] == 6
    assert_close(dense(parts, 5, 5), amap.weights(), rtol=0, atol=1e-7)
    mine = parts["edge"] < 6
    assert torch.equal(parts["weights"][:, mine], amap.edges()[:, parts["edge"][mine]])
    assert int((~mine).sum()) == (4 if self_loops else 0)  # the caller's own loop carries its weight


def test_a_record_of_a_graph_network_has_one_layout_and_its_edges_once():
    geometric = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    model = geometric.Sequential(
        "x, e", [(geometric.GATConv(4, 4, heads=2), "x, e -> x"), (geometric.GATConv(8, 2), "x, e -> x")]
    )
    with torch.no_grad(), regard.record(model) as rec:
        model(torch.randn(5, 4), EDGES)
    data, found = read(rec)
    parts = dict(zip(rec.maps, found, strict=True))
    first, second = data["sites"]
    assert all(first[part] == second[part] for part in ("start", "source", "edge"))
    assert first["graph"] == second["graph"] == 0 and data["graphs"][0]["count"] == 5
    for name, amap in rec.maps.items():
        assert_close(dense(parts[name], 5, 5), amap.weights().reshape(-1, 5, 5))


def test_a_loaded_record_draws_as_it_did(tmp_path):
    conv = regard.nn.GATConv(4, 4, heads=2)
    with torch.no_grad(), regard.record(conv) as rec:
        conv(torch.randn(5, 4), EDGES)
    before, after = page_data(rec), page_data(regard.load(rec.save(tmp_path / "run.regard")))
    assert before[0]["sites"] == after[0]["sites"] and before[1] == after[1]


def test_one_head_and_one_item_of_a_batch_are_drawn_as_such():
    amap = over(heads=3)
    data, (parts,) = read(amap[1])
    assert data["sites"][0]["heads"] == 1
    assert_close(dense(parts, 5, 5)[0], amap.weights()[1], rtol=0, atol=1e-7)
    graph = CapturedEdges.of(EDGES, EDGES, 5, 5)
    both = EdgeMap((2, 3), torch.rand(6, graph.size), graph)
    _, (parts,) = read(both, item=1)
    assert_close(dense(parts, 5, 5), both[1].weights())


def test_sources_and_targets_that_are_other_nodes_are_drawn_apart():
    q, k = torch.randn(1, 2, 4), torch.randn(1, 3, 4)
    amap = regard.attend(q, k, k, over=regard.Edges(torch.tensor([[0, 1, 2], [0, 0, 1]]))).map
    nodes = GraphNodes(names=["s0", "s1", "s2", "t0", "t1"], classes=[0, 0, 0, 1, 1])
    data, _ = page_data(amap, nodes=nodes)
    assert (data["graphs"][0]["first"], data["graphs"][0]["count"]) == (3, 5)
    assert data["sites"][0]["rows"] == ["t0", "t1"] and data["sites"][0]["columns"] == ["s0", "s1", "s2"]
    assert data["sites"][0]["numbers"][0]["loops"] == 0  # nobody is the same as anybody


def test_the_numbers_of_a_head_are_those_of_its_map():
    amap = over(self_loops=True)
    data, _ = page_data(amap)
    w = amap.weights()
    for head, said in enumerate(data["sites"][0]["numbers"]):
        assert said["entropy"] == pytest.approx(float(amap.entropy()[head].mean()) / np.log(2), rel=1e-5)
        assert said["loops"] == pytest.approx(float(w[head].diagonal().mean()), rel=1e-5)
        assert said["elsewhere"] == pytest.approx(float(amap.edges()[head, [0, 1, 2, 4, 5]].max()), rel=1e-6)


def test_names_classes_and_places_of_nodes_are_carried():
    data, texts = page_data(
        over(),
        nodes=GraphNodes(
            ["a", "b", "c", "</script>", "e"], torch.tensor([7, 7, 3, 3, 9]), torch.arange(10.0).reshape(5, 2)
        ),
    )
    (graph,) = data["graphs"]
    assert data["sites"][0]["rows"][3] == "</script>"
    assert graph["called"] == ["3", "7", "9"] and array(texts, graph["classes"]).tolist() == [1, 1, 0, 0, 2]
    assert array(texts, graph["places"]).tolist() == torch.arange(10.0).reshape(5, 2).tolist()


@pytest.mark.parametrize(
    "nodes, said",
    [
        (GraphNodes(names=["a"]), "has 1 nodes; the graphs here have 5"),
        (GraphNodes(places=torch.zeros(5, 3)), r"expected \(5, 2\)"),
        (GraphNodes(places=torch.full((5, 2), torch.nan)), r"expected \(5, 2\)"),
    ],
)
def test_nodes_that_do_not_fit_are_refused(nodes, said):
    with pytest.raises(ValueError, match=said):
        page_data(over(), nodes=nodes)
    q = torch.randn(1, 3, 4)
    with pytest.raises(ValueError, match="no map here is over edges"):
        page_data(regard.attend(q, q, q).map, nodes=GraphNodes(names="abc"))


def test_a_graph_that_is_too_large_to_draw_is_shown_as_its_matrix(monkeypatch):
    monkeypatch.setattr(graph_payload, "MAX_EDGES", 5)
    data, _ = page_data(over())
    assert data["graphs"] == [] and data["sites"][0]["form"] == "weights"


def test_only_pages_with_graphs_carry_what_draws_them():
    q = torch.randn(1, 3, 4)
    assert "regardDrawing=" not in html_of(regard.attend(q, q, q).map)
    assert "regardDrawing=" in html_of(over())


def test_a_graph_without_edges_makes_a_page():
    q = torch.randn(2, 3, 4)
    amap = regard.attend(q, q, q, over=regard.Edges(torch.zeros(2, 0, dtype=torch.long))).map
    data, _ = page_data(amap)
    assert data["sites"][0]["weights"]["shape"] == [2, 0] and data["sites"][0]["numbers"][0]["elsewhere"] == 0
