"""What is typed wrong about a graph layer and its call, what is answered, and sizes that an adjacency says."""

import inspect
from typing import Any

import pytest
import torch
from tests.core.answers import Answer, answers, assert_answered
from tests.nn.graph.parity import assert_same, features
from torch.testing import assert_close

import regard.nn as layers

TYPED = r"""
GATConv(15, 8)(X, INDEX)
    ValueError: GATConv: x has shape (4, 16), expected node features (..., N, 15) … in_channels
GATConv(DATA, 8)
    ValueError: GATConv(in_channels= … expected the width of the features … or a pair
GATConv(16, 8)(DATA)
    TypeError: GATConv: x is a Data and edge_index is missing: conv(data.x, data.edge_index)
GATConv(16, 8)(DATA, INDEX)
    TypeError: GATConv: x is a Data, expected a tensor of node features (..., N, 16)
GATConv(16, 8)(X)
    TypeError: edge_index is missing … conv(x, edge_index)
GATConv(16, 8)(X, INDEX.float())
    ValueError: edge_index is torch.float32 (2, 5), expected integers (2, E) … edge_index.long()
GATConv(16, 8)(X[:2], torch.ones(2, 2).float()[:, [0, 1, 0]])
    ValueError: expected integers (2, E)
GATConv(16, 8)(X, torch.ones(3, 3))
    ValueError: edge_index is an adjacency (3, 3) = (targets, sources), but x has 4 targets and 4 sources
GATConv(16, 8)(X.double(), INDEX)
    TypeError: GATConv: x is torch.float64, this layer is torch.float32
GATConv(16, 8)(X.to("meta"), INDEX)
    ValueError: GATConv: x is on meta, this layer is on cpu
GATConv(16, 8)(X, INDEX.to("meta"))
    ValueError: GATConv: edge_index is on meta, x is on cpu
GATConv(16, 8, edge_dim=2)(X, INDEX, torch.ones(5, 3))
    ValueError: GATConv: edge_attr has shape (5, 3), expected (E, 2)
GATConv(16, 8, heads=0)
    ValueError: GATConv(heads=0): expected a whole number, 1 or more
GATConv(16, 8, dropout=1.5)
    ValueError: GATConv(dropout=1.5): expected a probability
GATConv(16, 8, concat="yes")
    TypeError: GATConv(concat='yes'): expected True or False
GATConv(16, 8, fill_value=float("nan"))
    ValueError: GATConv(fill_value=nan): expected a number
SuperGATConv(16, 8).train()(X, INDEX, INDEX + 9)
    ValueError: edge_index names source 9 (edge 0), but there are 4 sources
HGTConv(16, 8, METADATA)(X, INDEX)
    TypeError: HGTConv: x_dict is a Tensor, expected a dictionary
HANConv(16, 8, METADATA)({"a": X}, {("a", "by", "a"): INDEX})
    ValueError: edge_index_dict has the edge type ('a', 'by', 'a')
HGTConv(16, 8, "metadata")
    ValueError: HGTConv(metadata='metadata') … data.metadata()
SimpleHGNConv(16, 8, 2)(X, INDEX)
    ValueError: SimpleHGNConv: edge_type is None, expected the relation of each edge, integers (5,)
GlobalNode(16)(X, INDEX + 9)
    ValueError: edge_index names source 9 (edge 0), but there are 4 sources
AttentionalAggregation("gate")
    TypeError: AttentionalAggregation(gate_nn='gate'): expected a module
Attention(16, 2)(X[None], cache=True)
    TypeError: cache= got True, expected a Cache
"""


class Data:
    """What a loader hands out: features and edges in one object."""


NAMES = {
    **{name: getattr(layers, name) for name in layers.__all__},
    "torch": torch,
    "DATA": Data(),
    "X": features(4, 16).float(),
    "INDEX": torch.tensor([[0, 1, 2, 3, 3], [1, 2, 3, 0, 3]]),
    "METADATA": (["a"], [("a", "to", "a")]),
}


@pytest.mark.parametrize("answer", answers(TYPED), ids=lambda answer: answer.code)
def test_an_error_says_what_was_given_and_what_to_type(answer: Answer) -> None:
    assert_answered(answer, NAMES)


def test_a_dense_adjacency_may_hold_numbers_or_truths_and_with_two_rows_truths_alone() -> None:
    layer, index = layers.GATConv(16, 8, add_self_loops=False), NAMES["INDEX"]
    dense = torch.zeros(4, 4)
    dense[index[1], index[0]] = 1
    assert_close(layer(NAMES["X"], dense), layer(NAMES["X"], index))
    pair = layers.GATConv((16, 5), 8, add_self_loops=False)
    x = (NAMES["X"], features(2, 5).float())
    both = torch.tensor([[0, 1, 3], [0, 1, 1]])
    dense = torch.zeros(2, 4)
    dense[both[1], both[0]] = 1
    assert_close(pair(x, dense.bool()), pair(x, both))
    with pytest.raises(ValueError, match=r"adjacency\.bool"):  # it could be an edge_index of numbers
        pair(x, dense)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_an_adjacency_says_how_many_targets_there_are(layout: str, loops: bool) -> None:
    peers = pytest.importorskip("torch_geometric.nn")
    index = torch.tensor([[0, 1, 1], [0, 2, 3]])
    adjacency = torch.sparse_coo_tensor(index, torch.ones(3), (2, 4)).coalesce()
    adjacency = adjacency.to_sparse_csr() if layout == "csr" else adjacency
    ours, theirs = (kind((8, 16), 32, add_self_loops=loops) for kind in (layers.GATConv, peers.GATConv))
    assert_same(ours, theirs, lambda layer, x: layer((x, None), adjacency), [features(4, 8)])
    assert ours.double()((features(4, 8), None), adjacency).shape == (2, 32)


def test_an_edge_width_of_minus_one_is_taken_from_the_first_input() -> None:
    for layer in (layers.GATConv(16, 8, edge_dim=-1), layers.RGATConv(16, 8, 1, edge_dim=-1)):
        more = (torch.zeros(5).long(),) if isinstance(layer, layers.RGATConv) else ()
        assert layer(NAMES["X"], NAMES["INDEX"], *more, torch.ones(5, 3)).shape == (4, 8)


@pytest.mark.parametrize(
    "options",
    [{}, {"attention_type": "SD"}, {"neg_sample_ratio": 2.0}, {"is_undirected": True}, {"edge_sample_ratio": 0.5}],
    ids=str,
)
def test_the_second_task_of_supergat_is_that_of_torch_geometric(options: dict[str, Any]) -> None:
    peers = pytest.importorskip("torch_geometric.nn")
    index = torch.tensor([[0, 1, 2, 3, 4, 1], [1, 2, 3, 4, 0, 1]])
    ours, theirs = (kind(5, 3, heads=2, **options).double() for kind in (layers.SuperGATConv, peers.SuperGATConv))
    ours.load_state_dict(theirs.state_dict())
    torch.manual_seed(0)
    found, expected = (layer.negative_sampling(index, 6) for layer in (ours, theirs))
    assert found.shape == expected.shape
    edges = {*map(tuple, index.T.tolist())} | (set() if ours.is_undirected else {*map(tuple, index.flip(0).T.tolist())})
    pairs = [*map(tuple, found.T.tolist())]
    assert len({*pairs}) == len(pairs) and not edges & {*pairs} and all(i != j for i, j in pairs)
    batch = torch.tensor([0, 0, 0, 1, 1, 1])
    within = ours.negative_sampling(index, 6, batch)
    assert within.shape[1] and torch.equal(batch[within[0]], batch[within[1]])
    x_i, x_j = features(6, 2, 3), features(6, 2, 3, seed=1)
    for logits in (False, True):
        assert_close(
            ours.get_attention(index[1], x_i, x_j, None, logits), theirs.get_attention(index[1], x_i, x_j, None, logits)
        )
    assert torch.equal(ours.eval().positive_sampling(index), index)
    if ours.edge_sample_ratio == 1:
        ours.train()(features(6, 5), index, found), theirs.train()(features(6, 5), index, found)
        assert_close(ours.get_attention_loss(), theirs.get_attention_loss())


def test_many_nodes_draw_their_non_edges() -> None:
    index = torch.randint(400, (2, 500))
    pairs = layers.SuperGATConv(5, 3).negative_sampling(index, 400)
    assert 0 < pairs.shape[1] <= 250
    taken = index[0] * 400 + index[1]
    assert not torch.isin(pairs[0] * 400 + pairs[1], taken).any() and (pairs[0] != pairs[1]).all()


NOT_HERE = {"GATConv": {"edge_collect"}, "GATv2Conv": {"edge_collect"}, "SAGPooling": {"connect"}}  # see the docs
BUILT: dict[str, tuple[Any, ...]] = {
    "GATConv": (16, 8),
    "GATv2Conv": (16, 8),
    "TransformerConv": (16, 8),
    "AGNNConv": (),
    "SuperGATConv": (16, 8),
    "RGATConv": (16, 8, 3),
    "HGTConv": (16, 8, NAMES["METADATA"]),
    "HANConv": (16, 8, NAMES["METADATA"]),
    "AttentionalAggregation": (torch.nn.Linear(16, 1),),
    "SAGPooling": (16,),
}


@pytest.mark.parametrize("name", BUILT)
def test_arguments_calls_and_attributes_are_those_of_torch_geometric(name: str) -> None:
    peers = pytest.importorskip("torch_geometric.nn")
    ours, theirs = (getattr(kind, name) for kind in (layers, peers))
    for method in ("__init__", "forward"):
        mine, other = (inspect.signature(getattr(kind, method)).parameters for kind in (ours, theirs))
        names = [x for x, p in other.items() if p.kind is not p.VAR_KEYWORD]
        assert [*mine][: len(names)] == names  # so that arguments by place mean the same
        for x in names:
            assert other[x].default is inspect.Parameter.empty or x == "GNN" or mine[x].default == other[x].default
    shared = {*dir(peers.MessagePassing(aggr="add")), *dir(peers.aggr.Aggregation())}
    mine, other = ours(*BUILT[name]), theirs(*BUILT[name])
    lacking = {x for x in dir(other) if not x.startswith("_") and x not in shared and not hasattr(mine, x)}
    assert lacking == NOT_HERE.get(name, set())
    assert repr(mine) == repr(other)
