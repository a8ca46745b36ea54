"""Forward-mode derivatives: tangents beside central differences, or a refusal in a sentence, never a tangent lost."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.testing import assert_close

from regard import Additive, Causal, Edges, Entmax, Refused, Sparsemax, attend
from regard.core.plan import make_plan

ALIGNMENTS = ("softmax", "sigmoid", "sparsemax", "entmax15", "relu")


def given():
    torch.manual_seed(0)
    return [torch.randn(1, 2, n, 4, dtype=torch.float64) for n in (5, 6, 6)]


def moved(call, tensors, tangents, step=1e-6):
    """Central differences along the tangents."""
    ends = [call(*(x + side * step * t for x, t in zip(tensors, tangents, strict=True))) for side in (1, -1)]
    return (ends[0] - ends[1]) / (2 * step)


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("score", ["scaled_dot", "gaussian", "additive"])
@pytest.mark.parametrize("align", ALIGNMENTS)
def test_tangents_are_central_differences(align, score, backend):
    tensors, tangents = given(), [torch.randn_like(x) for x in given()]
    call = lambda q, k, v: attend(q, k, v, score, align, Causal("end"), backend=backend).out  # noqa: E731
    _, mine = torch.func.jvp(call, tuple(tensors), tuple(tangents))
    true = moved(call, tensors, tangents)
    assert_close(mine, true, rtol=1e-6, atol=1e-8)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, t) for x, t in zip(tensors, tangents, strict=True)]
        assert_close(forward_ad.unpack_dual(call(*duals)).tangent, mine)


@pytest.mark.parametrize("alpha", [1.3, 1.7])
def test_the_tangent_of_a_learned_alpha(alpha):
    s, tangent = torch.randn(3, 7, dtype=torch.float64), torch.randn(3, 7, dtype=torch.float64)
    align = Entmax(alpha, learned=True).double()
    raw, step = align.raw.detach(), torch.ones(1, dtype=torch.float64)
    call = lambda raw, s: torch.func.functional_call(align, {"raw": raw}, (s[:, None],))  # noqa: E731
    _, mine = torch.func.jvp(call, (raw, s), (step, tangent))
    assert_close(mine, moved(call, (raw, s), (step, tangent)), rtol=1e-5, atol=1e-7)


def test_forward_over_reverse_is_the_hessian_of_reverse_over_reverse():
    s = torch.randn(4, 6, dtype=torch.float64)
    loss = lambda x: Sparsemax()(x).square().sum()  # noqa: E731
    tangent = torch.randn_like(s)
    x = s.clone().requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    (true,) = torch.autograd.grad(g, x, tangent)
    _, mine = torch.func.jvp(loss, (s,), (tangent,))
    assert_close(mine, (torch.func.grad(loss)(s) * tangent).sum())
    assert true.isfinite().all()


@pytest.mark.parametrize("over", [None, Edges(torch.tensor([[0, 1, 2, 5], [0, 0, 3, 4]]))], ids=["pairs", "edges"])
def test_who_has_no_tangent_refuses_and_loses_none(over):
    tensors = [x.float() for x in given()]
    ran = []
    for backend in make_plan(*tensors, over=over).refusals:
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(x, torch.ones_like(x)) for x in tensors]
            try:
                out = attend(*duals, over=over, backend=backend).out
            except Refused:
                continue
            ran.append(backend)
            assert forward_ad.unpack_dual(out).tangent is not None, backend
    assert ran == ["reference"]


def test_a_known_call_loses_no_tangent():
    """The first calls are planned, the next is taken from the cache of plans."""
    tensors = [x.float() for x in given()]
    for _ in range(3):
        attend(*tensors)
    with forward_ad.dual_level():
        out = attend(*(forward_ad.make_dual(x, torch.ones_like(x)) for x in tensors)).out
        assert forward_ad.unpack_dual(out).tangent is not None


def test_a_tangent_of_a_parameter_is_refused_where_it_would_be_lost():
    tensors, score = [x.float() for x in given()], Additive(4, 4, 3)
    with forward_ad.dual_level():
        score.v = torch.nn.Parameter(score.v.detach())
        weight = forward_ad.make_dual(score.v.detach(), torch.ones_like(score.v))
        with pytest.raises(Refused, match="forward-mode"):
            torch.func.functional_call(_Called(score), {"score.v": weight}, tuple(tensors))


class _Called(torch.nn.Module):
    def __init__(self, score):
        super().__init__()
        self.score = score

    def forward(self, q, k, v):
        return attend(q, k, v, self.score, backend="chunked").out
