"""Heads of queries that share keys in the dense kernels, by Triton's interpreter: no keys are repeated."""

import pytest
import torch
from tests.backends.triton.dense.test_backend import close

from regard import Causal, Mask, attend
from regard.backends.triton.dense.backend import TritonDense, kernel_refusals
from regard.core.plan import make_plan
from regard.core.scores import Additive, GATv2, Gaussian, ScaledDot

pytest.importorskip("triton")

HEADS, SHARED, WIDTH, VALUES = 4, 2, 6, 5
SCORES = {
    "dot": ScaledDot,
    "tanh": lambda: Additive(WIDTH, WIDTH, 9),
    "tanh, keys by head": lambda: Additive(WIDTH, WIDTH, 9, heads=HEADS),
    "leaky": lambda: GATv2(WIDTH, heads=HEADS),
    "gaussian": lambda: Gaussian(1.5),
}
BY_HEAD = Mask(keep=torch.rand(2, HEADS, 1, 11, generator=torch.Generator().manual_seed(0)) > 0.3)


def drawn(n, m, kind=torch.float32):
    torch.manual_seed(1)
    sizes = ((HEADS, n, WIDTH), (SHARED, m, WIDTH), (SHARED, m, VALUES))
    return [torch.randn(2, *size).to(kind).requires_grad_() for size in sizes]


@pytest.mark.parametrize(
    ("score", "align", "over"),
    [
        ("dot", "softmax", Causal("end")),
        pytest.param("dot", "entmax15", Causal("end"), marks=pytest.mark.slow),
        pytest.param("tanh", "softmax", BY_HEAD, marks=pytest.mark.slow),
        ("tanh", "sparsemax", None),
        ("leaky", "sigmoid", None),
        ("gaussian", "softmax", Causal("end")),
        pytest.param("tanh, keys by head", "softmax", None, marks=pytest.mark.slow),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_outputs_and_gradients_are_those_of_repeated_keys(score, align, over, small_tiles):
    found = []
    for kind in (torch.float64, torch.float32):
        q, k, v = drawn(9, 11, kind)
        made = SCORES[score]().to(kind)
        if kind == torch.float64:
            out = attend(q, k, v, made, align, over, backend="reference").out
        else:
            asked = make_plan(q, k, v, made, align, over)
            assert not kernel_refusals(asked)
            out = TritonDense().run(asked).out
        pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(3)).to(kind)
        found.append([out, *torch.autograd.grad(out, [q, k, v, *made.parameters()], pull)])
    close(*found)


def test_no_key_is_copied():
    q, k, v = drawn(3, 4)
    asked = make_plan(q, k, v)
    TritonDense().run(asked)
    assert asked.shared.core.b.data_ptr() == k.data_ptr() and not asked.lowered


def test_what_differs_by_head_of_queries_is_not_shared():
    q, k, v = drawn(3, 4)
    apart = make_plan(q, k, v, SCORES["tanh, keys by head"]())
    assert apart.shared is apart.problem.score and apart.shared.core.b.shape[0] == 2 * HEADS
    assert make_plan(q, k, v, SCORES["tanh"]()).shared.core.b.shape[0] == 2 * SHARED
