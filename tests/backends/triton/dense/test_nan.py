"""NaN in a key reaches the rows that may see it, and no other row, in every alignment of the dense kernels."""

import pytest
import torch

from regard import Causal, Entmax, Hard, TopK, attend
from regard.backends.triton.dense.backend import TritonDense
from regard.core.plan import make_plan
from regard.core.scores import Additive, ScaledDot

pytest.importorskip("triton")

SCORES = {"dot": ScaledDot, "tanh": lambda: Additive(4, 4, 3)}
ALIGNMENTS = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "entmax 1.5": "entmax15",
    "entmax 1.3": Entmax(1.3),
    "top-3": TopK(3),
    "top-99": TopK(99),
}


def call(score, n=9, m=12, place=5):
    torch.manual_seed(0)
    made = SCORES[score]()
    q, k, v = (torch.randn(1, 1, size, 4) for size in (n, m, m))
    k[0, 0, place, 1] = float("nan")
    return made, [x.requires_grad_() for x in (q, k, v)]


@pytest.mark.covered
@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("score", SCORES)
def test_a_key_of_nan_makes_the_rows_that_see_it_nan_and_no_other(score, align):
    made, (q, k, v) = call(score)
    ran = TritonDense().run(make_plan(q, k, v, made, ALIGNMENTS[align], Causal("start")))
    assert ran.out[0, 0, 5:].isnan().all() and ran.state.tau[0, 5:].isnan().all()
    true = attend(q, k, v, made, ALIGNMENTS[align], Causal("start"), backend="reference").out
    assert true[0, 0, 5:].isnan().all()
    torch.testing.assert_close(ran.out[0, 0, :5], true[0, 0, :5], rtol=1e-5, atol=1e-5)


@pytest.mark.covered
@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("score", SCORES)
def test_the_gradient_of_such_a_row_is_nan(score, align):
    made, (q, k, v) = call(score)
    out = TritonDense().run(make_plan(q, k, v, made, ALIGNMENTS[align], Causal("start"))).out
    (mine,) = torch.autograd.grad(out.sum(), q)
    assert mine[0, 0, 5:].isnan().any(-1).all()


@pytest.mark.parametrize("score", SCORES)
def test_a_row_of_nan_alone_is_nan(score):
    made, (q, k, v) = call(score, 3, 1, 0)
    for align in ("sparsemax", "entmax15", TopK(1)):
        assert TritonDense().run(make_plan(q, k, v, made, align)).out.isnan().all()


def test_a_hard_choice_takes_the_key_of_nan_as_the_reference_does():
    made, (q, k, v) = call("dot")
    ran = TritonDense().run(make_plan(q, k, v, made, Hard(), Causal("start")))
    true = attend(q, k, v, made, Hard(), Causal("start"), backend="reference")
    torch.testing.assert_close(ran.out, true.out)
    assert ran.state.index is not None and (ran.state.index[0, 5:] == 5).all()
