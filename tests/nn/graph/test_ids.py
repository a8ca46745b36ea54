"""An id outside the nodes is named by every graph layer, before features are read by it: eager and compiled."""

import random

import pytest
import torch
from torch import nn

from regard.models import GAT
from regard.models.gcn import GCNConv
from regard.nn import graph as layers

N, M, E, F, D, R = 7, 5, 20, 4, 2, 3
METADATA = (["a", "b"], [("a", "to", "b"), ("b", "to", "a")])
X, Y, ATTR, KIND = torch.randn(N, F), torch.randn(M, F), torch.randn(E, D), torch.randint(0, R, (E,))
BATCH = torch.randint(0, 3, (N,))
LEAVES = {"a": X, "b": Y}


def typed(layer, index):
    """The edges from a to b are those that are broken: ids outside a type may be inside of all together."""
    return layer(LEAVES, {("a", "to", "b"): index, ("b", "to", "a"): torch.tensor([[0, 4], [6, 1]])})


def weighed(layer, index):
    return layer(X, index, return_attention_weights=True)


# a layer and how it is called with edges among N nodes
AMONG = {
    "GATConv": (layers.GATConv(F, 3, heads=2), lambda f, e: f(X, e)),
    "GATConv, its weights": (layers.GATConv(F, 3), weighed),
    "GATConv, edges filled": (layers.GATConv(F, 3, edge_dim=D), lambda f, e: f(X, e, ATTR)),
    "GATConv, edges, a number": (layers.GATConv(F, 3, edge_dim=D, fill_value=1.0), lambda f, e: f(X, e, ATTR)),
    "GATv2Conv": (layers.GATv2Conv(F, 3, edge_dim=D, fill_value="max"), lambda f, e: f(X, e, ATTR)),
    "TransformerConv": (layers.TransformerConv(F, 3, edge_dim=D), lambda f, e: f(X, e, ATTR)),
    "AGNNConv": (layers.AGNNConv(), lambda f, e: f(X, e)),
    "SuperGATConv": (layers.SuperGATConv(F, 3), lambda f, e: f(X, e)),
    "SuperGATConv, SD": (layers.SuperGATConv(F, 3, attention_type="SD").eval(), lambda f, e: f(X, e)),
    "SuperGATConv, non-edges": (layers.SuperGATConv(F, 3), lambda f, e: f(X, torch.tensor([[0], [1]]), e)),
    "RGATConv": (layers.RGATConv(F, 3, R), lambda f, e: f(X, e, KIND)),
    "RGATConv, within": (
        layers.RGATConv(F, 3, R, attention_mechanism="within-relation", mod="additive"),
        lambda f, e: f(X, e, KIND),
    ),
    "SimpleHGNConv": (layers.SimpleHGNConv(F, 3, R), lambda f, e: f(X, e, KIND, torch.rand(1, E))),
    "EdgeGATConv": (layers.EdgeGATConv(F, D, 3, 2), lambda f, e: f(X, e, ATTR)),
    "GraphTransformerConv": (layers.GraphTransformerConv(F, 2, D), lambda f, e: f(X, e, ATTR)),
    "WalkAttention": (layers.WalkAttention(2), lambda f, e: f(X, e)),
    "GraphConv": (layers.GraphConv(F, 3), lambda f, e: f(X, e)),
    "SAGPooling": (layers.SAGPooling(F), lambda f, e: f(X, e, batch=BATCH)),
    "GlobalNode": (layers.GlobalNode(F), lambda f, e: f(X, e, BATCH, 3)),
    "DegreeEncoding": (layers.DegreeEncoding(F), lambda f, e: f(e, N)),
    "shortest_paths": (nn.Identity(), lambda f, e: layers.shortest_paths(e, N, 3)),
    "GCNConv": (GCNConv(F, 3), lambda f, e: f(X, e)),
    "models.GAT": (GAT(F, 3, 2), lambda f, e: f(X, e)),
}
# the same from N sources to M targets
BETWEEN = {
    "GATConv": (layers.GATConv((F, F), 3, edge_dim=D, add_self_loops=False), lambda f, e: f((X, Y), e, ATTR)),
    "GATConv, no targets": (layers.GATConv((F, F), 3), lambda f, e: f((X, None), e, size=(N, M))),
    "EdgeGATConv": (layers.EdgeGATConv(F, D, 3, 2), lambda f, e: f((X, Y), e, ATTR)),
    "HGTConv": (layers.HGTConv(F, 4, METADATA), typed),
    "HANConv": (layers.HANConv(F, 4, METADATA), typed),
}
CASES = [(name, *case, N) for name, case in AMONG.items()] + [(name, *case, M) for name, case in BETWEEN.items()]
COMPILED = ["GATConv, its weights", "GATConv, edges filled", "EdgeGATConv", "RGATConv", "HGTConv"]


def graph(targets):
    return torch.stack([torch.randint(0, N, (E,)), torch.randint(0, targets, (E,))])


def broken(index, targets, chance):
    """One id outside, and what is said of it."""
    row, column = chance.randrange(2), chance.randrange(E)
    size, end = ((N, "source"), (targets, "target"))[row]
    number = chance.choice([size, size + 1, size + chance.randrange(60), -1, -chance.randrange(1, 60), 2**32, 2**40])
    index = index.clone()
    index[row, column] = number
    return index, rf"edge_index names {end} {number} \(edge {column}\), but there are {size} {end}s, 0 to {size - 1}\."


@pytest.mark.parametrize("name, layer, call, targets", CASES, ids=[f"{case[0]}, {case[3]}" for case in CASES])
def test_a_random_id_outside_is_named(name, layer, call, targets):
    chance = random.Random(name)
    index = graph(targets)
    call(layer, index)
    for _ in range(10):
        wrong, says = broken(index, targets, chance)
        with pytest.raises(ValueError, match=says):
            call(layer, wrong)


@pytest.mark.parametrize(
    "name, layer, call, targets",
    [
        pytest.param(*x, marks=[] if x[0] in ("GATConv, edges filled", "HGTConv") else pytest.mark.slow)
        for x in CASES
        if x[0] in COMPILED
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_compiled_it_is_named_as_well(name, layer, call, targets):
    torch._dynamo.reset()
    index, chance = graph(targets), random.Random(name)
    reads = "weights" in name  # a map is read by degrees, which no graph is traced with
    compiled = torch.compile(lambda e: call(layer, e), backend="aot_eager", fullgraph=not reads)
    compiled(index)
    for _ in range(10):
        wrong, says = broken(index, targets, chance)
        with pytest.raises(ValueError, match=says):
            compiled(wrong)
    torch._dynamo.reset()


@pytest.mark.slow
@torch._inductor.config.patch(compile_threads=1)
def test_inductor_computes_no_layer_with_them():
    torch._dynamo.reset()
    index, layer, chance = graph(N), layers.EdgeGATConv(F, D, 3, 2), random.Random(0)
    compiled = torch.compile(lambda e: sum(x.square().sum() for x in layer(X, e, ATTR)))
    compiled(index).backward()
    for _ in range(10):
        wrong, says = broken(index, N, chance)
        with pytest.raises(ValueError, match=says):
            compiled(wrong).backward()
    torch._dynamo.reset()


def test_a_flow_that_is_turned_names_the_ends_by_what_they_are():
    index = graph(N)
    index[0, 3] = N
    with pytest.raises(ValueError, match=rf"names target {N} \(edge 3\)"):
        layers.GATConv(F, 3, flow="target_to_source")(X, index)


@pytest.mark.parametrize("layer", [layers.RGATConv(F, 3, R), layers.SimpleHGNConv(F, 3, R)])
@pytest.mark.parametrize("number", [R, -1, 2**40])
def test_a_type_of_edge_that_the_layer_was_not_built_for_is_named(layer, number):
    kind = KIND.clone()
    kind[4] = number
    with pytest.raises(ValueError, match=rf"edge_type names relation {number} \(edge 4\), but there are {R} relations"):
        layer(X, graph(N), kind)


READERS = {
    "AttentionalAggregation": (
        layers.AttentionalAggregation(nn.Linear(F, 1)),
        lambda f, batch, count: f(X, batch, dim_size=count),
    ),
    "GatedReadout": (layers.GatedReadout(F, 3), lambda f, batch, count: f(X, None, batch, count)),
    "GlobalNode": (layers.GlobalNode(F), lambda f, batch, count: f(X, graph(N), batch, count)),
}


@pytest.mark.parametrize("name", READERS)
def test_a_graph_that_a_batch_has_not_is_named(name):
    layer, call = READERS[name]
    compiled = torch.compile(lambda batch: call(layer, batch, 3), backend="aot_eager", fullgraph=name != "GlobalNode")
    torch._dynamo.reset()
    for run in (lambda batch: call(layer, batch, 3), compiled):
        run(BATCH)
        for number in (3, -1, 2**40):
            batch = BATCH.clone()
            batch[2] = number
            with pytest.raises(
                ValueError, match=rf"batch names graph {number} \(node 2\), but there are 3 graphs, 0 to 2"
            ):
                run(batch)
    torch._dynamo.reset()


@pytest.mark.parametrize("name", READERS)
def test_a_graph_below_0_is_named_where_the_batch_says_how_many_there_are(name):
    layer, call = READERS[name]
    batch = BATCH.clone()
    batch[2] = -1
    with pytest.raises(ValueError, match=r"batch names graph -1 \(node 2\)"):
        call(layer, batch, None)
