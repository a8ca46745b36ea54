"""GAtt against every path of the computation tree, walked one by one."""

import pytest
import torch

from regard.models import GAT
from regard.recording import record
from regard.recording.attribution.gatt import gatt
from regard.recording.capture.edges.edge_maps import CapturedEdges, EdgeMap

pyg = pytest.importorskip("torch_geometric.nn")
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 2, 0, 1], [1, 2, 1, 3, 2, 4, 0, 0, 2, 2]])  # 1 -> 2 twice, two loops
NODES = 5


def walk(layers, node):
    """Each edge occurrence in the tree that grows from a node: the product of the weights down to it."""
    found = [0.0] * (EDGES.shape[1] + NODES)

    def down(at, depth, product):
        if depth < 0:
            return
        weight, graph = layers[depth].weight.mean(0), layers[depth].graph
        for source, target, edge in zip(graph.source, graph.target, graph.edge, strict=True):
            if int(target) == at:
                here = product * float(weight[edge])
                found[int(edge)] += here
                down(int(source), depth - 1, here)

    down(node, len(layers) - 1, 1.0)
    return torch.tensor(found)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_against_the_tree(depth):
    graph = CapturedEdges.of(EDGES, EDGES, NODES, NODES)
    layers = [EdgeMap.of(torch.rand(2, EDGES.shape[1]), graph) for _ in range(depth)]
    for node in range(NODES):
        assert torch.allclose(gatt(layers, node).edges(), walk(layers, node)[: EDGES.shape[1]], atol=1e-5)
    every = gatt(layers, range(NODES))
    assert every.edges().shape == (NODES, EDGES.shape[1])
    assert torch.equal(every[2].edges(), gatt(layers, 2).edges())
    assert torch.equal(gatt(layers, -1).edges(), gatt(layers, NODES - 1).edges())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = pyg.GATConv(6, 4, heads=3), pyg.GATConv(12, 2)
        self.c = pyg.GATConv(2, 2, heads=2)

    def forward(self, x):
        return self.c(self.b(self.a(x, EDGES), EDGES), EDGES)


def test_on_a_recorded_network():
    net, x = Net(), torch.randn(NODES, 6)
    with record(net) as rec:
        net(x)
    for node in range(NODES):
        made = gatt(rec, node)
        want = walk(list(rec.maps.values()), node)
        assert torch.allclose(made.edges(), want[: EDGES.shape[1]], atol=1e-5)
        assert torch.allclose(made.loops, want[EDGES.shape[1] :], atol=1e-5)
        assert float(made.edges().sum() + made.loops.sum()) == pytest.approx(3, abs=1e-4)  # 1 from each layer
    assert float(gatt(rec, 0, sites="[ab]").edges().sum() + gatt(rec, 0, sites="[ab]").loops.sum()) == pytest.approx(2)


def test_on_our_own_network_and_where_no_path_leads():
    model, x = GAT(6, 4, 3, nheads=2, self_loops=False).eval(), torch.randn(NODES, 6)
    with record(model) as rec:
        model(x, EDGES)
    made = gatt(rec, 3).edges()  # 3 <- 2 <- 0, 1, 3
    reached = {(2, 3), (1, 2), (3, 2), (0, 2)}
    assert {tuple(e) for e in EDGES[:, made > 0].T.tolist()} == reached
    assert float(made.sum()) == pytest.approx(2, abs=1e-5)


def test_what_is_no_graph_network_is_refused():
    graph = CapturedEdges.of(EDGES, EDGES, NODES, NODES)
    layer = EdgeMap.of(torch.rand(2, EDGES.shape[1]), graph)
    with pytest.raises(ValueError, match="no map over edges"):
        gatt([], 0)
    with pytest.raises(IndexError, match="5 nodes"):
        gatt([layer], 5)
    less = EDGES[:, :4]
    with pytest.raises(ValueError, match="the same graph"):
        gatt([EdgeMap.of(torch.rand(2, 4), CapturedEdges.of(less, less, NODES, NODES)), layer], 0)
