"""Statistics of rows: entropy, mass and the strongest weights, from blocks of rows and never from all edges at once."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard import Edges, Padding, attend

EDGES = torch.tensor([[0, 1, 1, 3, 0, 2, 2, 4], [1, 1, 1, 1, 2, 2, 4, 4]])  # 1 -> 1 twice; targets 0 and 3 have none


def on_a_graph(align="softmax", self_loops=False):
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 5, 4, dtype=torch.float64) for _ in range(3))
    return attend(q, k, v, "gatv2", align, Edges(EDGES, self_loops=self_loops)).map


@pytest.mark.parametrize("align", ["softmax", "sparsemax"])
def test_the_entropy_of_a_row_is_that_of_its_edges(align):
    amap = on_a_graph(align)
    w = amap.edges()
    expected = torch.zeros(3, 5, dtype=torch.float64)
    expected.index_add_(1, EDGES[1], -torch.xlogy(w, w))
    torch.testing.assert_close(amap.entropy(), expected)
    assert (amap.entropy()[:, [0, 3]] == 0).all()


def test_mass_is_what_each_source_receives():
    amap = on_a_graph(self_loops=True)
    torch.testing.assert_close(amap.mass(), amap.weights().sum(-2))


def test_the_strongest_edges_of_each_row():
    amap = on_a_graph()
    weights, best = amap.edges(), amap.strongest(3)
    for head in range(3):
        for row in range(5):
            own = [e for e in range(EDGES.shape[1]) if EDGES[1, e] == row]
            order = sorted(own, key=lambda e: -weights[head, e])[:3]
            found = best.edge[head, row].tolist()
            there = found[: len(order)]  # edges that stand twice have equal weights, in either order
            assert (
                set(there) <= set(own)
                and len(set(there)) == len(order)
                and found[len(order) :] == [-1] * (3 - len(order))
            )
            assert best.key[head, row].tolist()[: len(order)] == [EDGES[0, e].item() for e in there]
            torch.testing.assert_close(best.weight[head, row, : len(order)], weights[head, order])
            assert (best.weight[head, row, len(order) :] == 0).all()


def test_an_added_loop_is_named_by_its_node():
    best = on_a_graph(self_loops=True).strongest(1)
    assert (best.key[:, 0, 0] == 0).all() and (best.edge[:, 0, 0] == EDGES.shape[1]).all()


def test_the_strongest_of_a_dense_map_is_topk_of_its_weights():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 7, 4) for _ in range(3))
    amap = attend(q, k, v, over=Padding(torch.tensor([7, 2]))).map
    best, expected = amap.strongest(3), amap.weights().topk(3, -1)
    torch.testing.assert_close(best.weight, expected.values)
    assert (best.key[0] == expected.indices[0]).all()
    assert (best.key[1, ..., 2] == -1).all() and best.edge is None  # the second item has two keys


def test_more_than_there_are_keys():
    torch.manual_seed(0)
    amap = attend(*(torch.randn(4, 3) for _ in range(3))).map
    assert amap.strongest(9).weight.shape == (4, 4)
    with pytest.raises(ValueError, match="1 or more"):
        amap.strongest(0)


class Largest(TorchDispatchMode):
    """The largest tensor of floating-point numbers that any operator makes."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(x, torch.Tensor) and x.is_floating_point():
                self.numbers = max(self.numbers, x.numel())
        return out


def test_nothing_of_the_size_of_all_edges_is_written(monkeypatch):
    from regard.core.lowering import blocks

    monkeypatch.setattr(blocks, "BLOCK_BUDGET", 4096)
    torch.manual_seed(0)
    nodes, edges, heads = 300, 20_000, 4
    q, k = (torch.randn(heads, nodes, 1) for _ in range(2))
    v = torch.randn(heads, nodes, 2)
    amap = attend(q, k, v, "gat", over=Edges(torch.randint(0, nodes, (2, edges)))).map
    with Largest() as largest:
        amap.entropy(), amap.strongest(2), amap.mass()
    assert largest.numbers < edges  # all weights would be heads x edges
