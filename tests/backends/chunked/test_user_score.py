"""Parts of one's own: what a class says in forward is what runs, also where it inherits from a built-in one."""

import pytest
import torch

from regard import ALiBi, Alignment, Causal, Edges, Refused, ScaledDot, SoftCap, Softmax, attend, plan
from regard.core.alignments.alignment import NO_CONTEXT, RowState

Q, K, V = (torch.randn(2, 2, 6, 4, dtype=torch.float64) for _ in range(3))


class Shifted(ScaledDot):
    """A definition on top of a built-in one, whose lowering knows nothing of it."""

    def forward(self, q, k):
        return super().forward(q, k) * k.norm(dim=-1).unsqueeze(-2)


class Squared(SoftCap):
    def forward(self, s, tile):
        return s.square() / self.cap


class Halved(ALiBi):
    """Inherits that a constant passes through, which no longer holds."""

    def forward(self, s, tile):
        return super().forward(s, tile) * 0.5


class Sharp(Softmax):
    def forward(self, s, keep=None, noise=None):
        w = super().forward(s, keep, noise).square()
        return w / w.sum(-1, keepdim=True).clamp_min(1e-300)


class Alone(Alignment):
    """An alignment of one's own, with forward and nothing else."""

    def forward(self, s, keep=None, noise=None):
        w = s.tanh().square()
        return w if keep is None else w * keep


def test_a_score_that_redefines_forward_is_not_lowered_as_its_base():
    written = torch.softmax((Q @ K.transpose(-1, -2) / 2) * K.norm(dim=-1).unsqueeze(-2), -1) @ V
    for backend in ("auto", "chunked", "reference"):
        torch.testing.assert_close(attend(Q, K, V, Shifted(), backend=backend).out, written)
    with pytest.raises(Refused, match="own score Shifted"):
        attend(Q, K, V, Shifted(), backend="sdpa")


@pytest.mark.parametrize("modifier", [Squared(2.0), Halved(2, learned=True)], ids=["Squared", "Halved"])
def test_a_modifier_that_redefines_forward_has_its_own_gradient(modifier):
    q = Q.clone().requires_grad_()
    score = (ScaledDot() | modifier).double()
    leaves = [q, *modifier.parameters()]
    found = {}
    for backend in ("chunked", "reference"):
        out = attend(q, K, V, score, backend=backend).out
        found[backend] = (out.detach(), *torch.autograd.grad(out.square().sum(), leaves))
    torch.testing.assert_close(found["chunked"], found["reference"])


def test_an_alignment_that_redefines_forward_is_not_run_as_its_base():
    w = torch.softmax(Q @ K.transpose(-1, -2) / 2, -1).square()
    written = w / w.sum(-1, keepdim=True)
    out, amap = attend(Q, K, V, align=Sharp())
    torch.testing.assert_close(out, written @ V)
    torch.testing.assert_close(amap.weights(), written)


def test_an_alignment_with_forward_alone_runs_by_the_definition_and_its_map_is_kept():
    q = Q.clone().requires_grad_()
    out, amap = attend(q, K, V, align=Alone(), over=Causal())
    written = (Q @ K.transpose(-1, -2) / 2).tanh().square().tril()
    torch.testing.assert_close(amap.weights(), written)
    torch.testing.assert_close(out, written @ V)
    out.sum().backward()
    assert q.grad.isfinite().all()


class Linear(Alignment):
    """A row's scores over how many there are: a row state with a scale."""

    shift_invariant = simplex = False
    scales = True

    def forward(self, s, keep=None, noise=None):
        keep = torch.ones_like(s, dtype=torch.bool) if keep is None else keep.expand_as(s)
        return torch.where(keep, s, 0.0) / keep.sum(-1, keepdim=True).clamp_min(1)

    def state(self, s, look=NO_CONTEXT):
        seen = (s > -float("inf")).sum(-1)
        return RowState(
            torch.zeros_like(s[..., 0]).masked_fill(seen == 0, float("inf")), scale=1 / seen.clamp_min(1).to(s)
        )

    def weights(self, s, state, look=NO_CONTEXT):
        return torch.where(s > -float("inf"), s, 0.0) * state.scale[..., None]

    def vjp(self, s, w, dw, state, grads, look=NO_CONTEXT):
        return torch.where(s > -float("inf"), dw, 0.0) * state.scale[..., None]


def test_an_alignment_whose_rows_remember_a_scale_runs_in_blocks():
    leaves = [x.clone().requires_grad_() for x in (Q, K, V)]
    found = {}
    for backend in ("chunked", "reference"):
        out, amap = attend(*leaves, align=Linear(), over=Causal(), backend=backend)
        found[backend] = (out.detach(), amap.weights().detach(), *torch.autograd.grad(out.square().sum(), leaves))
    torch.testing.assert_close(found["chunked"], found["reference"])


def test_blocks_refuse_an_alignment_that_keeps_no_row_state():
    with pytest.raises(Refused, match="keeps no row state"):
        attend(Q, K, V, align=Alone(), backend="chunked")
    many = [torch.randn(1, 1, 1500, 64) for _ in range(3)]
    assert plan(*many, align=Alone()).backend == "reference"


def test_an_alignment_with_forward_alone_runs_on_edges():
    index = torch.tensor([[0, 1, 2, 2], [3, 3, 0, 5]])
    out = attend(Q, K, V, align=Alone(), over=Edges(index)).out
    s = (Q @ K.transpose(-1, -2) / 2).tanh().square()
    torch.testing.assert_close(out[:, :, 3], s[:, :, 3, 0, None] * V[:, :, 0] + s[:, :, 3, 1, None] * V[:, :, 1])
    assert (out[:, :, 1] == 0).all()


def test_what_inherits_everything_is_lowered_as_before():
    class Same(ScaledDot):
        pass

    assert plan(Q, K, V, Same()).backend == "sdpa"
    assert torch.equal(attend(Q, K, V, Same()).out, attend(Q, K, V, ScaledDot()).out)
