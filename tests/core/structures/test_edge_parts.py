"""Edges with a key and a value of their own, which join those of their source; and graphs that are sorted once."""

import gc

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard import GAT, Additive, Cosine, Edges, GATv2, ScaledDot, Score, attend
from regard.core.caches import tensor_cache

GRAPH = torch.tensor([[2, 0, 1, 4, 2, 3, 0, 4], [0, 1, 1, 1, 3, 3, 3, 4]])  # node 2 attends nobody


def tensors(rows: int, heads: int = 3, seed: int = 0) -> list[Tensor]:
    make = torch.Generator().manual_seed(seed)
    shapes = [(heads, 5, 4)] * 3 + [(heads, rows, 4)] * 2
    return [torch.randn(shape, generator=make, dtype=torch.float64).requires_grad_() for shape in shapes]


SCORES = [
    ("add", ScaledDot),
    ("mul", ScaledDot),
    ("add", lambda: GATv2(4, 3).double()),
    ("add", lambda: GAT(4, 3).double()),
    ("mul", GATv2),
    ("add", lambda: Additive(4).double()),
    ("mul", lambda: Additive(4).double()),
    ("add", Cosine),  # not linear in the key: runs by its definition
]


@pytest.mark.parametrize(("join", "make"), SCORES)
@pytest.mark.parametrize("backend", ["reference", "chunked", "auto"])
def test_an_edge_joins_the_key_and_the_value_of_its_source(backend: str, join: str, make: type[Score]) -> None:
    """Against a graph in which every edge has a source of its own, whose key and value are already joined."""
    torch.manual_seed(1)
    score, count = make(), GRAPH.shape[1]
    q, k, v, key, value = leaves = tensors(count)
    out, amap = attend(q, k, v, score, over=Edges(GRAPH, key=key, value=value, join=join), backend=backend)
    own_k = k[:, GRAPH[0]] + key if join == "add" else k[:, GRAPH[0]] * key
    own = Edges(torch.stack([torch.arange(count), GRAPH[1]]), (5, count))
    expected, weights = attend(q, own_k, v[:, GRAPH[0]] + value, score, over=own, backend="reference")
    assert_close(out, expected)
    assert_close(amap.edges(), weights.edges())
    mixed = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    for ours, theirs in zip(
        torch.autograd.grad((out * mixed).sum(), leaves),
        torch.autograd.grad((expected * mixed).sum(), leaves),
        strict=True,
    ):
        assert_close(ours, theirs)


def test_a_loop_that_was_added_has_the_last_rows_and_a_loop_of_the_caller_its_own() -> None:
    """The caller has loops at nodes 1, 3 and 4; nodes 0 and 2 get one."""
    q, k, v, key, value = tensors(8 + 5)
    out, amap = attend(q, k, v, over=Edges(GRAPH, self_loops=True, key=key, value=value))
    added, rows = torch.tensor([0, 2]), [*range(8), 8, 10]
    written_out = Edges(torch.cat([GRAPH, added.repeat(2, 1)], 1), key=key[:, rows], value=value[:, rows])
    expected, weights = attend(q, k, v, over=written_out)
    assert_close(out, expected)
    assert_close(amap.edges(), weights.edges()[:, :8])
    assert_close(amap.loops[:, added], weights.edges()[:, 8:])


def test_a_key_of_the_wrong_size_is_refused_with_both_shapes() -> None:
    q, k, v, key, _ = tensors(7)
    with pytest.raises(ValueError, match=r"Edges\(key\) has shape \(3, 7, 4\), expected \(3, 8, 4\)"):
        attend(q, k, v, over=Edges(GRAPH, key=key))


def test_an_edge_that_nobody_reads_may_hold_nan() -> None:
    """Padding repeats a row's own first edge, so a NaN stays with its target."""
    q, k, v, key, value = (x.detach() for x in tensors(8))
    value[:, 0] = float("nan")  # the only edge of target 0
    for backend in ("reference", "chunked"):
        out = attend(q, k, v, over=Edges(GRAPH, key=key, value=value), backend=backend).out
        assert out[:, 0].isnan().all()
        assert not out[:, 1:].isnan().any()


def test_a_sparse_adjacency_is_the_same_graph_as_its_edge_list() -> None:
    q, k, v = tensors(8)[:3]
    adjacency = torch.sparse_coo_tensor(GRAPH.flip(0), torch.ones(8), (5, 5))
    expected = attend(q, k, v, over=Edges(GRAPH)).out
    assert_close(attend(q, k, v, over=Edges.from_sparse(adjacency)).out, expected)
    assert_close(attend(q, k, v, over=Edges.from_sparse(adjacency.to_sparse_csr())).out, expected)


def test_a_raw_edge_index_is_sorted_once_and_forgotten_with_it() -> None:
    q, k, v = tensors(8)[:3]
    index = GRAPH.clone()
    first = attend(q, k, v, over=Edges(index)).map.graph
    assert attend(q, k, v, over=Edges(index)).map.graph is first
    index[:, 0] = index[:, 1]  # another version
    assert attend(q, k, v, over=Edges(index)).map.graph is not first
    known = id(index)
    assert any(known in dict(tensors) for _, tensors in tensor_cache._entries)
    del index
    gc.collect()
    assert not any(known in dict(tensors) for _, tensors in tensor_cache._entries)


def test_what_is_remembered_is_bounded() -> None:
    kept = [torch.zeros(1) for _ in range(tensor_cache.LIMIT + 5)]
    for x in kept:
        tensor_cache.cached_by_tensor((x,), "test", lambda: 0)
    assert len(tensor_cache._entries) == tensor_cache.LIMIT
