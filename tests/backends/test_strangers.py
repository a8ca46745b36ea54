"""A score, an alignment, a modifier and a structure of somebody else's run on every backend that lists their forms.

Each class here is what a file of its own would hold; nothing of the package names it.
"""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from regard import Edges, QueryFree, attend
from regard.backends.triton.dense import backend as dense
from regard.backends.triton.edges import backend as edges
from regard.core.alignments import Alignment, RowState
from regard.core.alignments.alignment import NO_CONTEXT, RowContext, log_sum_exp, masked, summing_to_one, zeroed
from regard.core.lowering.kernel_forms import (
    EXPONENTIAL,
    SIGMOID,
    SOFT_CAP,
    WINDOW,
    AlignmentForm,
    ModifierForm,
    StructureForm,
)
from regard.core.lowering.score_kernels import DotCore, Grads, PairCore
from regard.core.lowering.tiles import Tile
from regard.core.modifiers import Modifier
from regard.core.plan import make_plan
from regard.core.registry import backends
from regard.core.scores import Additive, ScaledDot, Score
from regard.core.scores.score import Lowered, flat
from regard.core.structures import Structure

pytest.importorskip("triton")
pytest.importorskip("numba")
ALWAYS = {"chunked", "reference"}


class Perceptron(Score):
    """s_ij = sum_d tanh(q_id + k_jd) / d"""

    one_width = True

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.tanh(q[..., :, None, :] + k[..., None, :, :]).mean(-1)

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        return Lowered(PairCore(flat(q), flat(k), 1 / q.shape[-1], "tanh"))


class Popular(Score):
    """s_ij = q_i . k_j + k_j1"""

    one_width = True

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT + k[..., None, :, 0]

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        return Lowered(DotCore(flat(q), flat(k)), key_bias=flat(k)[..., 0].float())


class Exponential(Score):
    """s_ij = log(phi(q_i) . phi(k_j)), phi = exp"""

    one_width = True

    def feature_map(self, x: Tensor) -> Tensor:
        return x.exp()

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return (self.feature_map(q) @ self.feature_map(k).mT).log()


class Boltzmann(Alignment):
    """w_ij = exp(s_ij - tau_i)"""

    def kernel_form(self) -> AlignmentForm:
        return AlignmentForm("softmax", EXPONENTIAL)

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        return zeroed(torch.softmax(masked(s, keep), -1), keep)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        return RowState(log_sum_exp(s))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        return torch.exp(s - state.tau[..., None])

    def whole(self, w: Tensor) -> Tensor:
        return summing_to_one(w)

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        return w * (dw - (w * dw).sum(-1, keepdim=True))


class Gate(Alignment):
    """w_ij = 1 / (1 + exp(1 - s_ij))"""

    shift_invariant = False
    simplex = False

    def kernel_form(self) -> AlignmentForm:
        return AlignmentForm("sigmoid", SIGMOID, bias=-1.0)

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        return zeroed(torch.sigmoid(s - 1), keep)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        empty = ~(s > float("-inf")).any(-1)
        return RowState(s.new_ones(s.shape[:-1]).masked_fill(empty, float("inf")))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        return torch.sigmoid(s - state.tau[..., None])

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        return w * (1 - w) * dw


class Bounded(Modifier):
    """s' = 2 tanh(s / 2)"""

    def kernel_form(self) -> ModifierForm:
        return ModifierForm(SOFT_CAP, 2.0)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return 2 * torch.tanh(s / 2)


class Nearness(Modifier):
    """s' = s - |i - j| / 4"""

    shifts = True

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        near = (tile.query - tile.key).abs() / 4
        return s - (near.unsqueeze(1) if s.ndim == 4 else near)


@dataclass(frozen=True, eq=False)
class Glimpse(Structure):
    """j <= i + ahead"""

    ahead: int

    def kernel_form(self, n: int, m: int) -> StructureForm:
        return StructureForm(WINDOW, right=self.ahead)

    def allowed(self, tile: Tile) -> Tensor | None:
        return tile.key <= tile.query + self.ahead


GRAPH = Edges(torch.tensor([[0, 1, 2, 3, 4, 4], [1, 1, 0, 0, 3, 2]]), (5, 5))
DENSE_DOTS = {"sdpa", "triton-dense"}
EDGES = {"triton-edges", "edges-cpu"}
CASES = {
    "a score of pairs": (Perceptron(), "softmax", None, {"triton-dense"}),
    "a score of pairs on edges": (Perceptron(), "softmax", GRAPH, EDGES),
    "a score with a bias of keys": (Popular(), "softmax", None, DENSE_DOTS),
    "a score with a feature map": (Exponential(), "softmax", None, {"linear"}),
    "an alignment that is a softmax": (ScaledDot(), Boltzmann(), None, DENSE_DOTS),
    "that alignment on edges": (ScaledDot(), Boltzmann(), GRAPH, EDGES),
    "that alignment by feature": (Additive(features=True), Boltzmann(), None, {"triton-features"}),
    "an alignment that is a sigmoid": (ScaledDot(), Gate(), None, {"triton-dense"}),
    "that sigmoid on edges": (Perceptron(), Gate(), GRAPH, EDGES),
    "a modifier that caps": (
        Additive(features=True, activation="identity") | Bounded(),
        "softmax",
        None,
        {"triton-features"},
    ),
    "that modifier of dot products": (ScaledDot() | Bounded(), "sigmoid", None, {"triton-dense"}),
    "a modifier that adds": (QueryFree(features=True) | Nearness(), "softmax", None, {"separable"}),
    "a structure": (ScaledDot(), "softmax", Glimpse(1), {"triton-dense"}),
    "that structure by feature": (Additive(features=True), "softmax", Glimpse(1), {"triton-features"}),
    "all four": (Perceptron(), Gate(), Glimpse(1), {"triton-dense"}),
}


@pytest.fixture
def kernels_for_this_device(monkeypatch):
    """Triton's interpreter runs on a CPU."""
    for module in (dense, edges):
        monkeypatch.setattr(module, "device_refusal", lambda device: None)


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 5, 4, dtype=torch.float64).to(dtype).requires_grad_() for _ in range(3))
    return q, k, v


def gradients(out: Tensor, leaves: tuple[Tensor, ...]) -> list[Tensor]:
    pull = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
    grads = torch.autograd.grad(out, leaves, pull, allow_unused=True)
    return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(leaves, grads, strict=True)]


@pytest.mark.parametrize("case", CASES)
def test_it_runs_on_every_backend_that_lists_its_form_and_on_no_other(case, kernels_for_this_device):
    score, align, over, kernels = CASES[case]
    plan = make_plan(*inputs(torch.float32), score, align, over)
    assert {name for name, reasons in plan.refusals.items() if not reasons} == kernels | ALWAYS


@pytest.mark.parametrize("case", CASES)
def test_what_they_compute_is_the_definition(case, kernels_for_this_device):
    score, align, over, kernels = CASES[case]
    true = inputs(torch.float64)
    expected = attend(*true, score, align, over, backend="reference").out
    pulled = gradients(expected, true)
    for backend in backends():
        if backend.name not in kernels | {"chunked"}:
            continue
        mine = inputs(torch.float32)
        out = backend.run(make_plan(*mine, score, align, over)).out
        assert_close(out.double(), expected.view(out.shape), rtol=1e-5, atol=1e-5)
        for x, y in zip(gradients(out, mine), pulled, strict=True):
            assert_close(x.double(), y, rtol=1e-5, atol=1e-5)


def test_a_form_is_not_inherited_by_what_computes_something_else():
    class Sharper(Boltzmann):
        def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
            return super().forward(2 * s, keep)

    class Wider(Bounded):
        def forward(self, s: Tensor, tile: Tile) -> Tensor:
            return 3 * torch.tanh(s / 3)

    class Farther(Glimpse):
        def allowed(self, tile: Tile) -> Tensor | None:
            return tile.key <= tile.query + 2 * self.ahead

    class Cubed(ScaledDot):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return super().forward(q, k) ** 3

    assert Sharper().kernel_form() is None and Wider().kernel_form() is None and Farther(1).kernel_form(5, 5) is None
    assert Cubed().dot_scale(torch.randn(1, 1, 5, 4)) is None and Cubed().lower(*inputs(torch.float32)[:2]) is None
    assert type("Rooted", (Exponential,), {"forward": lambda self, q, k: F.relu(q) @ k.mT}).feature_map is None
