"""Dropout in the dense kernels, by Triton's interpreter: the same noise as every other backend's."""

import pytest
import torch
from tests.backends.triton.dense.test_backend import close

from regard import Causal, Segments, TopK, attend
from regard.backends.triton.dense.backend import TritonDense, kernel_refusals
from regard.core.alignments import Local
from regard.core.plan import make_plan
from regard.core.scores import Additive, ScaledDot

pytest.importorskip("triton")

CASES = {
    "softmax": (ScaledDot, "softmax", Causal("end"), 9, 70),
    "entmax": (ScaledDot, "entmax15", None, 9, 11),
    "sigmoid of tanh": (lambda: Additive(6, 6, 4), "sigmoid", None, 5, 6),
    "a bell": (ScaledDot, Local(3), None, 7, 7),
    "top-k": (ScaledDot, TopK(4), Causal("end"), 5, 9),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_dropped_and_its_gradients_are_the_references(case):
    score, align, over, n, m = CASES[case]
    found = []
    for kind in (torch.float64, torch.float32):
        torch.manual_seed(1)
        made = score().to(kind)
        sizes = ((2, n, 6), (1, m, 6), (1, m, 5))
        q, k, v = (torch.randn(2, *size).to(kind).requires_grad_() for size in sizes)
        if kind == torch.float64:
            out = attend(q, k, v, made, align, over, dropout=0.4, seed=11, backend="reference").out
        else:
            asked = make_plan(q, k, v, made, align, over, 0.4, False, 11)
            assert not kernel_refusals(asked)
            out = TritonDense().run(asked).out
        pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(3)).to(kind)
        found.append([out, *torch.autograd.grad(out, [q, k, v, *made.parameters()], pull)])
    close(*found)


def test_nothing_is_dropped_where_places_change():
    q = torch.randn(1, 1, 6, 4)
    for options in ({"over": Segments(torch.arange(6) % 2)}, {"align": "hard"}):
        assert "places" in kernel_refusals(make_plan(q, q, q, **options, dropout=0.1))[0]
