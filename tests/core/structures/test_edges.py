"""Edges: a graph as a structure. Row = target, column = source; weights stand on the caller's edges."""

import math

import pytest
import torch
from tests.core.mechanisms import ORDERED, STEPWISE, built, inputs, product
from torch import Tensor
from torch.testing import assert_close

from regard import Causal, Edges, Mask, Padding, Segments, attend
from regard.core.structures.edges import Neighbours

GRAPH = torch.tensor([[2, 0, 1, 4, 2, 3, 0, 4], [0, 1, 1, 1, 3, 3, 3, 4]])  # sources, targets; node 2 is isolated


def by_hand(q: Tensor, k: Tensor, v: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Scaled dot and softmax for one head, an edge at a time: the output (n, d) and a weight for each edge."""
    scores = [float(q[t] @ k[s]) / math.sqrt(q.shape[-1]) for s, t in edges.T.tolist()]
    total = [0.0] * q.shape[0]
    for (_, t), s in zip(edges.T.tolist(), scores, strict=True):
        total[t] += math.exp(s)
    weights = [math.exp(s) / total[t] for (_, t), s in zip(edges.T.tolist(), scores, strict=True)]
    out = torch.zeros(q.shape[0], v.shape[-1], dtype=v.dtype)
    for (source, t), w in zip(edges.T.tolist(), weights, strict=True):
        out[t] += w * v[source]
    return out, torch.tensor(weights, dtype=torch.float64)


def nodes(n: int = 5, seed: int = 1) -> list[Tensor]:
    return [x[0, 0].detach() for x in inputs(n, n, seed=seed)]


@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_attention_over_edges_is_softmax_over_the_sources_of_each_target(backend: str) -> None:
    q, k, v = nodes()
    out, amap = attend(q, k, v, over=Edges(GRAPH), backend=backend)
    expected, weights = by_hand(q, k, v, GRAPH)
    assert_close(out, expected)
    assert_close(amap.edges(), weights)


def test_an_edge_goes_from_the_attended_source_to_the_attending_target() -> None:
    q, k, v = nodes(2)
    out, amap = attend(q, k, v, over=Edges(torch.tensor([[0], [1]])))
    assert_close(out, torch.stack([torch.zeros(4, dtype=torch.float64), v[0]]))
    assert_close(amap.weights(), torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64))


def test_a_dense_adjacency_is_the_same_graph_as_its_edge_list_and_as_a_mask() -> None:
    q, k, v = nodes()
    adjacency = torch.zeros(5, 5)
    adjacency[GRAPH[1], GRAPH[0]] = 1
    dense = attend(q, k, v, over=Edges.from_dense(adjacency))
    assert_close(dense.out, attend(q, k, v, over=Edges(GRAPH)).out)
    masked = attend(q, k, v, over=Mask(keep=adjacency > 0))
    assert_close(dense.out, masked.out)
    assert_close(dense.map.weights(), masked.map.weights())


def test_an_edge_that_stands_twice_counts_twice() -> None:
    q, k, v = nodes(3)
    twice = torch.tensor([[0, 1, 0], [2, 2, 2]])
    out, amap = attend(q, k, v, over=Edges(twice))
    expected, weights = by_hand(q, k, v, twice)
    assert_close(out, expected)
    assert_close(amap.edges(), weights)
    assert_close(amap.weights()[2, 0], weights[0] + weights[2])


def test_self_loops_replace_those_of_the_caller_as_torch_geometric_does() -> None:
    """Nodes 0, 1, 2; node 1 has two loops, node 2 one, node 0 none. Loops go, then each node gets one."""
    q, k, v = nodes(3)
    given = torch.tensor([[1, 1, 0, 2, 1], [1, 0, 2, 2, 1]])  # loops at places 0, 3 and 4
    out, amap = attend(q, k, v, over=Edges(given, self_loops=True))
    replaced = torch.tensor([[1, 0, 0, 1, 2], [0, 2, 0, 1, 2]])  # the two others, then one loop a node
    expected, weights = by_hand(q, k, v, replaced)
    assert_close(out, expected)
    zero = torch.zeros((), dtype=torch.float64)
    on_edges = torch.stack([weights[3], weights[0], weights[1], weights[4], zero])
    assert_close(amap.edges(), on_edges)  # the first loop of a node carries its weight, the second none
    assert_close(amap.loops, torch.stack([weights[2], zero, zero]))  # only node 0's loop was added
    assert_close(amap.edges().sum() + amap.loops.sum(), torch.tensor(3.0, dtype=torch.float64))


def test_self_loops_of_a_bipartite_graph_join_the_nodes_that_both_sides_have() -> None:
    q, k, v = inputs(n=2, m=4)
    out, amap = attend(q, k, v, over=Edges(torch.tensor([[3], [0]]), self_loops=True))
    full = attend(q, k, v, over=Edges(torch.tensor([[3, 0, 1], [0, 0, 1]])))
    assert_close(out, full.out)
    assert_close(amap.loops, full.map.edges()[..., 1:])


@pytest.mark.parametrize("self_loops", [False, True])
def test_shuffled_edges_give_the_same_output_and_shuffled_weights(self_loops: bool) -> None:
    q, k, v = nodes()
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    plain = attend(q, k, v, over=Edges(GRAPH, self_loops=self_loops))
    shuffled = attend(q, k, v, over=Edges(GRAPH[:, order], self_loops=self_loops))
    assert_close(shuffled.out, plain.out)
    assert_close(shuffled.map.edges(), plain.map.edges()[order])
    assert_close(shuffled.map.loops, plain.map.loops)


@pytest.mark.parametrize("align", ["softmax", "sparsemax", "sigmoid", "hard", "topk"])
def test_renaming_the_nodes_renames_the_rows(align: str) -> None:
    q, k, v = nodes()
    new = torch.tensor([3, 0, 4, 1, 2])  # node x is called new[x]
    old = new.argsort()
    plain = attend(q, k, v, align=built(align), over=Edges(GRAPH))
    renamed = attend(q[old], k[old], v[old], align=built(align), over=Edges(new[GRAPH]))
    assert_close(renamed.out, plain.out[old])
    assert_close(renamed.map.edges(), plain.map.edges())


@pytest.mark.covered(4)
@pytest.mark.parametrize(("score", "align"), [(s, a) for s, a in product() if not {s, a} & {*STEPWISE, *ORDERED}])
def test_a_complete_graph_is_dense_attention(score: str, align: str) -> None:
    q, k, v = inputs()
    made = built(score), built(align)
    complete = torch.cartesian_prod(torch.arange(5), torch.arange(3)).T
    dense, graph = attend(q, k, v, *made), attend(q, k, v, *made, over=Edges(complete))
    assert_close(graph.out, dense.out)
    assert_close(graph.map.weights(), dense.map.weights())
    assert_close(graph.map.edges(), dense.map.weights()[..., complete[1], complete[0]])
    tensors = [q, k, v, *(p for part in made for p in part.parameters())]
    found = [torch.autograd.grad(x.out.square().sum(), tensors, allow_unused=True) for x in (graph, dense)]
    for tensor, a, b in zip(tensors, *found, strict=True):
        assert_close(torch.zeros_like(tensor) if a is None else a, torch.zeros_like(tensor) if b is None else b)


def test_a_graph_without_edges_gives_zero() -> None:
    q, k, v = inputs(n=5)
    for index in (torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 0, dtype=torch.int32)):
        out, amap = attend(q, k, v, over=Edges(index))
        assert (out == 0).all()
        assert amap.edges().shape == (2, 2, 0)
        assert (amap.weights() == 0).all()
        assert all((g == 0).all() for g in torch.autograd.grad(out.sum(), [q, k, v]))


def test_a_graph_without_edges_but_with_loops_gives_each_node_itself() -> None:
    q, k, v = inputs(n=5)
    out, amap = attend(q, k, v, over=Edges(torch.zeros(2, 0, dtype=torch.long), self_loops=True))
    assert_close(out, v)
    assert_close(amap.loops, torch.ones(2, 2, 5, dtype=torch.float64))


def test_targets_and_sources_may_differ_in_number() -> None:
    q, k, v = (x.detach() for x in inputs(n=3, m=7))
    index = torch.tensor([[6, 0, 5, 6], [0, 0, 2, 2]])
    out, amap = attend(q, k, v, over=Edges(index, size=(3, 7)))
    for b in range(2):
        for h in range(2):
            expected, weights = by_hand(q[b, h], k[b, h], v[b, h], index)
            assert_close(out[b, h], expected)
            assert_close(amap.edges()[b, h], weights)


def test_edges_join_with_every_other_structure() -> None:
    q, k, v = inputs(n=5)
    adjacency = torch.zeros(5, 5, dtype=torch.bool)
    adjacency[GRAPH[1], GRAPH[0]] = True
    keep = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(0)) > 0.4
    for other in (Causal(), Padding(torch.tensor([5, 3])), Mask(keep=keep), Segments(torch.tensor([0, 0, 1, 1, 1]))):
        for over in (Edges(GRAPH) & other, other & Edges(GRAPH)):
            graph, dense = attend(q, k, v, over=over), attend(q, k, v, over=Mask(keep=adjacency) & other)
            assert_close(graph.out, dense.out)
            assert_close(graph.map.weights(), dense.map.weights())


@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_nan_in_a_node_stays_with_its_neighbours(backend: str) -> None:
    q, k, v = nodes()
    clean = attend(q, k, v, over=Edges(GRAPH), backend=backend).out
    for node, neighbours in ((0, [1, 3]), (1, [1]), (2, [0, 3])):
        hole = torch.zeros(5, 1, dtype=torch.float64)
        hole[node] = float("nan")
        asking = q.clone().requires_grad_()
        out = attend(asking, k + hole, v + hole, over=Edges(GRAPH), backend=backend).out
        rest = [i for i in range(5) if i not in neighbours]
        assert_close(out[rest], clean[rest])
        assert out[neighbours].isnan().all()
        assert torch.autograd.grad(out[rest].sum(), asking)[0][rest].isfinite().all()


def test_an_edge_list_changed_in_place_is_read_again() -> None:
    q, k, v = nodes()
    index = GRAPH.clone()
    over = Edges(index)
    before = attend(q, k, v, over=over).out
    index[0, 0] = 4
    after = attend(q, k, v, over=over).out
    assert_close(after, by_hand(q, k, v, index)[0])
    assert (after - before).abs().amax() > 0.01


def test_blocks_hold_every_row_once_and_a_hub_does_not_widen_the_others() -> None:
    hub = torch.stack([torch.arange(500), torch.zeros(500, dtype=torch.long)])
    ring = torch.stack([torch.arange(500), (torch.arange(500) + 1) % 500])
    graph = Neighbours.build(torch.cat([hub, ring], 1), 500, 500, False)
    blocks = graph.blocks(10_000)
    assert sorted(torch.cat(blocks).tolist()) == list(range(500))
    degree = graph.start.diff()
    assert sum(len(rows) * int(degree[rows].max()) for rows in blocks) < 2 * 1000 + 8 * 500


def test_int32_edges_and_leading_axes_are_welcome() -> None:
    q, k, v = (x.detach().unflatten(0, (3, 2)) for x in inputs(n=5, batch=6))
    out = attend(q, k, v, over=Edges(GRAPH.int())).out
    assert_close(out[2, 1, 0], by_hand(q[2, 1, 0], k[2, 1, 0], v[2, 1, 0], GRAPH)[0])
