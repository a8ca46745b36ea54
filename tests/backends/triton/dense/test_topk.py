"""Softmax over the k best keys in the dense kernels, by Triton's interpreter."""

import pytest
import torch
from tests.backends.triton.dense.test_backend import close

from regard import Causal, Padding, Segments, TopK, attend
from regard.backends.triton.dense import backend as triton_dense
from regard.backends.triton.dense import topk
from regard.backends.triton.dense.backend import TritonDense, kernel_refusals
from regard.core.plan import make_plan
from regard.core.scores import Additive, GATv2, Gaussian, ScaledDot

pytest.importorskip("triton")

WIDTH, VALUES, HEADS, SHARED = 6, 5, 2, 1
SCORES = {
    "dot": ScaledDot,
    "tanh": lambda: Additive(WIDTH, WIDTH, 7, heads=HEADS),
    "leaky": lambda: GATv2(WIDTH, heads=HEADS),
    "gaussian": lambda: Gaussian(1.5),
}


def drawn(n, m, kind=torch.float32):
    torch.manual_seed(1)
    sizes = ((HEADS, n, WIDTH), (SHARED, m, WIDTH), (SHARED, m, VALUES))
    return [torch.randn(1, *size).to(kind).requires_grad_() for size in sizes]


def ran(q, k, v, score="scaled_dot", count=3, over=None, **options):
    asked = make_plan(q, k, v, score, TopK(count), over, **options)
    assert not kernel_refusals(asked)
    return TritonDense().run(asked)


@pytest.mark.parametrize(
    ("score", "count", "n", "m", "over"),
    [
        ("dot", 3, 5, 7, Causal("end")),
        ("dot", 40, 3, 300, None),
        ("tanh", 2, 3, 5, None),
        ("leaky", 4, 4, 6, Padding(torch.tensor([2]))),
        ("gaussian", 20, 3, 9, None),
    ],
    ids=["causal", "many tiles", "tanh", "leaky", "more than there are"],
)
def test_keys_outputs_and_gradients_are_the_references(score, count, n, m, over):
    found = []
    for kind in (torch.float64, torch.float32):
        q, k, v = drawn(n, m, kind)
        made = SCORES[score]().to(kind)
        if kind == torch.float64:
            done = attend(q, k, v, made, TopK(count), over, backend="reference")
            out, state = done.out, done.map.state
        else:
            done = ran(q, k, v, made, count, over)
            out, state = done.out, done.state
        pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(3)).to(kind)
        grads = torch.autograd.grad(out, [q, k, v, *made.parameters()], pull)
        chosen = state.index.sort(-1).values.to(kind)
        found.append([out, state.tau.clamp_max(1e9), chosen[..., -min(count, m) :], *grads])
    close(*found)


def test_ties_keep_exactly_k_keys_and_the_map_reads_which():
    q, v = torch.zeros(1, 1, 2, 4), torch.randn(1, 1, 9, 3)
    out, state = (done := ran(q, torch.randn(1, 1, 9, 4), v, count=4)).out, done.state
    assert [len(set(row.tolist())) for row in state.index[0]] == [4, 4]
    torch.testing.assert_close(out[0, 0, 0], v[0, 0, state.index[0, 0].long()].mean(0))


def test_an_empty_row_and_no_key():
    q, k, v = drawn(2, 3)
    done = ran(q, k, v, over=Padding(torch.tensor([0])))
    assert not done.out.any() and (done.state.index == -1).all() and (done.state.tau == float("inf")).all()
    nothing = ran(q, k[:, :, :0], v[:, :, :0])
    assert not nothing.out.any() and nothing.state.index.shape == (2, 2, 0)


def test_it_leaves_many_keys_and_moved_ones_to_others():
    q = torch.randn(1, 1, 300, 4)
    assert "256" in kernel_refusals(make_plan(q, q, q, align=TopK(257)))[0]
    assert kernel_refusals(make_plan(q, q, q, align=TopK(2), over=Segments(torch.arange(300) % 2)))


@pytest.mark.parametrize("align", ["softmax", "entmax15", TopK(2)], ids=["softmax", "entmax15", "top-2"])
def test_operators_hold_their_schema(align, monkeypatch):
    """opcheck: the schema holds, and fake kernels have the shapes and types of the real ones."""
    seen = []
    for home, name in ((triton_dense, "dense_op"), (topk, "topk_op")):
        op = getattr(home, name)
        monkeypatch.setattr(home, name, lambda *given, op=op: seen.append((op, given)) or op(*given))
    q, k, v = drawn(2, 3)
    TritonDense().run(make_plan(q, k, v, align=align, over=Causal("end"), dropout=0.2, seed=3))
    ((op, given),) = seen
    torch.library.opcheck(op.call, given, test_utils=("test_schema", "test_faketensor"))
