"""Tensors of inference mode have no version: what is changed in them is seen all the same, or does not matter."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from regard import (
    Additive,
    EdgeBias,
    Edges,
    General,
    Mask,
    Padding,
    PairBias,
    RelativeBias,
    ScaledDot,
    Segments,
    attend,
    intervene,
    record,
)
from regard.core.scores import Score
from regard.interventions import Uniform

pytestmark = pytest.mark.usefixtures("either_path")

INDEX = [[0, 1, 2, 3, 0], [1, 2, 0, 3, 2]]


class WeightedCall(Score):
    """A score of the user's own, with a tensor of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weigh", torch.rand(4))

    def forward(self, q, k):
        return (q * self.weigh) @ k.mT


def tensors(n: int = 4):
    rng = torch.Generator().manual_seed(0)
    return [torch.randn(1, 2, n, 4, generator=rng) for _ in range(3)]


def built(name: str):
    """Score and structure, and the tensors in them that a caller may change."""
    bias, keep = torch.randn(1, 2, 4, 4), torch.rand(4, 4) < 0.7
    keep.fill_diagonal_(True)
    index, key = torch.tensor(INDEX), torch.randn(1, 2, 5, 4)
    lengths, ids, edge = torch.tensor([3]), torch.tensor([[0, 0, 1, 1]]), torch.randn(2, 5)
    score = {
        "general": General(4, 4, 2),
        "additive": Additive(4, 4, 3, 2),
        "own": WeightedCall(),
        "relative": ScaledDot() | RelativeBias(2, 2),
    }.get(name, ScaledDot())
    return {
        "bias": ({"score": ScaledDot() | PairBias(bias)}, [bias]),
        "mask": ({"over": Mask(keep=keep)}, [keep]),
        "padding": ({"over": Padding(lengths)}, [lengths]),
        "segments": ({"over": Segments(ids)}, [ids]),
        "edges": ({"over": Edges(index)}, [index]),
        "edge keys": ({"over": Edges(index, key=key)}, [index, key]),
        "edge bias": ({"score": ScaledDot() | EdgeBias(edge), "over": Edges(index)}, [edge]),
        "grouped": ({}, []),
    }.get(name, ({"score": score}, [*score.parameters(), *score.buffers()]))


NAMES = [
    "dot",
    "general",
    "additive",
    "own",
    "relative",
    "bias",
    "mask",
    "padding",
    "segments",
    "edges",
    "edge keys",
    "edge bias",
    "grouped",
]


@pytest.mark.parametrize("backend", ["auto", "reference", "chunked"])
@pytest.mark.parametrize("name", NAMES)
def test_a_map_is_of_what_was_attended_whatever_changes_afterwards(name, backend):
    with torch.inference_mode():
        q, k, v = tensors()
        if name == "grouped":
            k, v = k[:, :1].clone(), v[:, :1].clone()
        options, others = built(name)
        for _ in range(3):  # the first call of a kind is planned, the next are not
            expected = attend(q, k, v, **options, backend=backend).map.weights()
            amap = attend(q, k, v, **options, backend=backend).map
        for x in (q, k, v, *others):
            x.copy_(3 * x + 1 if x.is_floating_point() else torch.zeros_like(x))
        assert torch.equal(amap.weights(), expected)
        assert torch.equal(amap[0, 1].weights(), expected[0, 1])
    assert torch.equal(amap.weights(), expected)


@pytest.mark.parametrize("backend", ["auto", "reference", "chunked"])
def test_a_graph_that_changed_is_another_graph(backend):
    with torch.inference_mode():
        q, k, v = tensors()
        over = Edges(torch.tensor(INDEX))
        for row in ([0, 1, 2, 3, 0], [3, 2, 1, 0, 1], [3, 2, 1, 0, 1], [0, 0, 0, 0, 0]):
            over.edge_index[0] = torch.tensor(row)
            assert_close(
                attend(q, k, v, over=over, backend=backend).out,
                attend(q, k, v, over=Edges(over.edge_index.clone()), backend=backend).out,
            )
        over.edge_index[0, 0] = 10**9
        with pytest.raises(ValueError, match="names source 1000000000"):
            attend(q, k, v, over=over, backend=backend)


def test_a_graph_that_did_not_change_is_sorted_once(monkeypatch):
    sorted_ = []
    whole = Edges._sorted
    monkeypatch.setattr(Edges, "_sorted", lambda self, n, m: sorted_.append(n) or whole(self, n, m))
    with torch.inference_mode():
        q, k, v = tensors()
        over = Edges(torch.tensor(INDEX))
        for _ in range(3):
            attend(q, k, v, over=over)
    assert len(sorted_) == 1


@pytest.mark.parametrize("keep", ["qk", "weights", "topk", "stats"])
def test_a_record_is_of_what_ran(keep):
    with torch.inference_mode():
        q, k, v = tensors()
        mask = torch.randn(4, 4)
        expected = (q @ k.mT / 2 + mask).softmax(-1)
        with record(keep=keep, k=4) as rec:
            F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            for x in (q, k, v, mask):
                x.mul_(2)
        if keep == "stats":
            assert_close(next(iter(rec.stats.values())).mass, expected.sum(-2))
        else:
            assert_close(next(iter(rec.maps.values())).weights(), expected)


def test_a_mask_that_is_reused_is_read_again():
    with torch.inference_mode():
        q, k, v = tensors()
        mask = torch.ones(4, 4, dtype=torch.bool)
        with record() as rec:
            for last in (3, 1):
                mask[:, last:] = False
                F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    for amap, last in zip(rec.maps.values(), (3, 1), strict=True):
        assert not amap.weights()[..., last:].any() and amap.weights()[..., :last].all()


def test_interventions_are_recorded_as_they_were():
    with torch.inference_mode():
        q, k, v = tensors()
        with intervene(None, Uniform()), record() as rec:
            F.scaled_dot_product_attention(q, k, v)
        q.mul_(2)
        assert_close(next(iter(rec.maps.values())).weights(), torch.full((1, 2, 4, 4), 0.25))


def test_ordinary_tensors_are_watched_in_inference_mode_too():
    q, k, v = tensors()
    amap = attend(q, k, v).map
    with torch.inference_mode():
        q.mul_(2)
    with pytest.raises(RuntimeError, match="q was changed in place"):
        amap.weights()
