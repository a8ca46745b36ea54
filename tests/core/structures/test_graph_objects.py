"""Graphs of other libraries are read where edges are expected; ids that are no whole numbers never are."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import regard
from regard import Edges, attend
from regard.core.structures.graph_objects import parts_of

pyg = pytest.importorskip("torch_geometric")
networkx = pytest.importorskip("networkx")
scipy_sparse = pytest.importorskip("scipy.sparse")

from torch_geometric import EdgeIndex  # noqa: E402
from torch_geometric.data import Batch, Data, HeteroData  # noqa: E402

INDEX = torch.tensor([[0, 1, 2, 3, 3, 0], [1, 2, 3, 0, 3, 2]])
X = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))


class LikeDGL:
    """What a DGLGraph offers: edges() and counts of nodes, no edge_index."""

    def __init__(self, index, targets, sources):
        self.index, self.targets, self.sources = index, targets, sources

    def edges(self):
        return self.index[0], self.index[1]

    def num_src_nodes(self):
        return self.sources

    def num_dst_nodes(self):
        return self.targets


def directed():
    graph = networkx.DiGraph()
    graph.add_nodes_from("abcd")
    graph.add_edges_from([("abcd"[s], "abcd"[t]) for s, t in INDEX.T.tolist()])
    return graph


def matrix():
    """Rows are targets."""
    return scipy_sparse.csr_matrix((np.ones(6), (INDEX[1].numpy(), INDEX[0].numpy())), shape=(4, 4))


GRAPHS = {
    "edge_index": lambda: INDEX,
    "Data": lambda: Data(x=X, edge_index=INDEX),
    "Batch": lambda: Batch.from_data_list([Data(x=X, edge_index=INDEX)]),
    "EdgeStorage": lambda: hetero()["a", "to", "a"],
    "EdgeIndex": lambda: EdgeIndex(INDEX, sparse_size=(4, 4)),
    "Data of an EdgeIndex": lambda: Data(x=X, edge_index=EdgeIndex(INDEX)),
    "Data of adj_t": lambda: Data(x=X, adj_t=torch.sparse_coo_tensor(INDEX.flip(0), torch.ones(6), (4, 4)).coalesce()),
    "torch.sparse": lambda: torch.sparse_coo_tensor(INDEX.flip(0), torch.ones(6), (4, 4)).to_sparse_csr(),
    "scipy.sparse": matrix,
    "networkx": directed,
    "DGL": lambda: LikeDGL(INDEX, 4, 4),
}


def hetero():
    data = HeteroData()
    data["a"].x, data["a", "to", "a"].edge_index = X, INDEX
    return data


@pytest.mark.parametrize("name", GRAPHS)
def test_edges_and_layers_read_the_graphs_of_other_libraries(name):
    q = X[None]
    expected, ran = attend(q, q, q, over=Edges(INDEX)).out, attend(q, q, q, over=Edges(GRAPHS[name]()))
    assert_close(ran.out, expected)
    torch.manual_seed(0)
    conv = regard.nn.GATConv(5, 3, heads=2)
    assert_close(conv(X, GRAPHS[name]()), conv(X, INDEX))


def test_weights_stand_on_the_order_of_the_graph_itself():
    torch.manual_seed(0)
    conv = regard.nn.GATConv(5, 3, add_self_loops=False)
    with_graph = conv(X, directed(), return_map=True)[1].edges()
    listed = [INDEX.T.tolist().index(["abcd".index(s), "abcd".index(t)]) for s, t in directed().edges()]
    assert_close(with_graph, conv(X, INDEX, return_map=True)[1].edges()[:, listed])


def test_an_undirected_edge_goes_both_ways_and_a_loop_once():
    graph = networkx.Graph([(0, 1), (1, 1), (1, 2)])
    assert sorted(parts_of(graph).index.T.tolist()) == [[0, 1], [1, 0], [1, 1], [1, 2], [2, 1]]
    assert parts_of(networkx.empty_graph(3)).index.shape == (2, 0)


def test_a_graph_of_two_kinds_of_nodes_says_its_sizes():
    index = torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
    conv = regard.nn.GATConv((5, 5), 3)
    assert conv((X, None), LikeDGL(index, 2, 4)).shape == (2, 3)
    assert Edges(scipy_sparse.coo_matrix(np.ones((2, 4)))).size == (2, 4)


def test_edge_features_of_data_are_read_or_warned_of():
    data = Data(x=X, edge_index=INDEX, edge_attr=torch.randn(6, 2))
    conv = regard.nn.GATConv(5, 3, edge_dim=2)
    assert_close(conv(X, data), conv(X, INDEX, data.edge_attr))
    with pytest.warns(UserWarning, match="built without edge_dim"):
        regard.nn.GATConv(5, 3)(X, data)
    relational = regard.nn.RGATConv(5, 3, num_relations=2)
    data = Data(x=X, edge_index=INDEX, edge_type=torch.tensor([0, 1, 0, 1, 1, 0]))
    assert_close(relational(X, data), relational(X, INDEX, data.edge_type))


def test_layers_of_several_types_read_hetero_data():
    data = hetero()
    for kind in (regard.nn.HGTConv, regard.nn.HANConv):
        conv = kind(5, 4, data.metadata(), heads=2)
        assert_close(conv(data.x_dict, data)["a"], conv(data.x_dict, data.edge_index_dict)["a"])
    with pytest.raises(TypeError, match=r"several edge types .* pass one of them, data\[edge_type\]"):
        regard.nn.GATConv(5, 3)(X, data)


@pytest.mark.parametrize("index", [INDEX.float(), INDEX.double(), torch.ones(2, 4), torch.ones(2, 2).half()])
def test_a_float_edge_index_is_an_error_everywhere(index):
    layers = [
        regard.nn.GATConv(5, 3),
        regard.nn.GATv2Conv(5, 3),
        regard.nn.TransformerConv(5, 3),
        regard.nn.AGNNConv(),
        regard.nn.SuperGATConv(5, 3),
        regard.nn.SAGPooling(5),
    ]
    calls = [lambda layer=layer: layer(X[: max(2, index.shape[1] % 6)], index) for layer in layers]
    calls += [lambda: regard.nn.RGATConv(5, 3, 1)(X, index, torch.zeros(index.shape[1]).long())]
    calls += [lambda: regard.nn.HGTConv(5, 4, hetero().metadata())({"a": X}, {("a", "to", "a"): index})]
    calls += [lambda: regard.nn.HANConv(5, 4, hetero().metadata())({"a": X}, {("a", "to", "a"): index})]
    calls += [lambda: attend(X, X, X, over=Edges(index)), lambda: regard.nn.GATConv(5, 3)(X, Data(edge_index=index))]
    for call in calls:
        with pytest.raises((ValueError, TypeError), match=r"integers|whole numbers"):
            call()


def test_what_is_no_graph_is_refused_in_a_sentence():
    with pytest.raises(TypeError, match=r"Edges\(edge_index\) is a str, expected integers"):
        Edges("edges")
    with pytest.raises(TypeError, match=r"edge_index is a dict, expected a tensor \(2, E\)"):
        regard.nn.GATConv(5, 3)(X, {})
