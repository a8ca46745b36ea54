"""Sparse alignments: sparsemax and alpha-entmax, with exact zeros.

tau is the root of sum_j f(s_j - tau) = 1, a decreasing convex function for 1 < alpha <= 2, so Newton's steps from the
left rise to it and never pass it. No sorting: a step is two sums over the row.
"""

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn

from ..arguments import flag, number, whole
from ..errors import check_heads
from ..lowering.kernel_forms import POSITIVE_PART, POWER, SQUARE, AlignmentForm
from ..lowering.score_kernels import Grads
from ..torch_private import apply_function, is_transformed
from .alignment import NO_CONTEXT, Alignment, RowContext, RowState, tau_rounding_matters, zeroed

LEAST, MOST = 1.0001, 4.0  # of alpha: outside, tau in fp32 says too little for rows to sum to one within a hundredth
STEPS = 24  # enough for a million equal scores; quadratic once close
FEW_STEPS = 12  # from a rounded tau, which is off by an eighth where scores are a million


def _power(x: Tensor, alpha: float | Tensor) -> Tensor:
    """f(x) = [(alpha - 1) x]_+ ^ (1 / (alpha - 1))."""
    if not isinstance(alpha, Tensor):
        if alpha == 2.0:
            return x.clamp_min(0)
        if alpha == 1.5:
            return (0.5 * x).clamp_min(0).square()
    base = ((alpha - 1) * x).clamp_min(0)
    return torch.where(base <= 0, 0.0, base.clamp_min(torch.finfo(x.dtype).tiny) ** (1 / (alpha - 1)))  # NaN stays NaN


def _support(w: Tensor, alpha: float | Tensor) -> Tensor:
    """f'(f^-1(w)) = w^(2 - alpha) on the support, 0 elsewhere: what the Jacobian is made of."""
    if not isinstance(alpha, Tensor):
        if alpha == 2.0:
            return (w > 0).to(w.dtype)
        if alpha == 1.5:
            return torch.where(w > 0, w, 1.0).sqrt() * (w > 0)
    return torch.where(w > 0, w, 1.0) ** (2 - alpha) * (w > 0)


CACHED = 1 << 16  # scores whose rows are solved together on a CPU: a quarter of a megabyte, so that steps stay in cache


def _is_eager(x: Tensor) -> bool:
    return not torch.compiler.is_compiling() and not is_transformed(x)


def threshold(s: Tensor, alpha: float | Tensor) -> Tensor:
    """tau (..., n) of rows that hold -inf where masked; +inf for a row without a key. No gradient."""
    peak, tau = peak_and_threshold(s, alpha)
    return (tau + peak).squeeze(-1)


def peak_and_threshold(s: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    """The largest score of each row and tau of the scores less it, (..., n, 1), apart: in fp32 their sum loses the
    threshold where scores are large. 0 and +inf for a row without a key. No gradient."""
    if s.shape[-1] == 0:
        return s.new_zeros((*s.shape[:-1], 1)), s.new_full((*s.shape[:-1], 1), float("inf"))
    many = s.numel() > max(CACHED, s.shape[-1])  # rows, more than one of them
    if many and s.device.type == "cpu" and not isinstance(alpha, Tensor) and _is_eager(s):
        rows = s.detach().reshape(-1, s.shape[-1]).split(max(1, CACHED // s.shape[-1]))
        parts = zip(*(peak_and_threshold(part, alpha) for part in rows), strict=True)
        peak, tau = (torch.cat(part).reshape(*s.shape[:-1], 1) for part in parts)
        return peak, tau
    with torch.no_grad():
        alpha = alpha.detach() if isinstance(alpha, Tensor) else alpha
        peak = s.amax(-1, keepdim=True)
        empty = peak == float("-inf")
        peak = peak.masked_fill(empty, 0.0)
        x = s - peak
        if isinstance(alpha, Tensor) or not 1 < alpha <= 2:
            tau = _bisected(x, alpha)
        else:
            tau = _newton(x, alpha)
        return peak, tau.masked_fill(empty, float("inf"))


def refined_threshold(s: Tensor, tau: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    """The same from tau (..., n) as it was rounded, by some of Newton's steps from its left: it is close already, and
    nothing is asked of the numbers, for which the host would wait for the device. alpha in (1, 2]."""
    with torch.no_grad():
        peak = s.amax(-1, keepdim=True)
        empty = peak == float("-inf")
        peak, tau = peak.masked_fill(empty, 0.0), tau[..., None].masked_fill(empty, 0.0)
        rounding = 2 * torch.finfo(tau.dtype).eps * tau.abs()
        start = torch.maximum(tau - peak - rounding, torch.zeros_like(tau) - 1 / (alpha - 1))
        rest = _newton(s - peak, alpha, start, FEW_STEPS)
        return peak, rest.masked_fill(empty, float("inf"))


def _newton(x: Tensor, alpha: float | Tensor, start: Tensor | None = None, steps: int = STEPS) -> Tensor:
    """From a tau left of the root, or the left end, -1 / (alpha - 1), where the largest score, 0, alone weighs 1."""
    tau = torch.zeros_like(x[..., :1]) - 1 / (alpha - 1) if start is None else start
    eager = _is_eager(x)
    for _ in range(steps):
        rest = (x - tau).clamp_min_(0) if eager else (x - tau).clamp_min(0)
        if not isinstance(alpha, Tensor) and alpha == 2.0:
            total, slope = rest.sum(-1, keepdim=True), (rest > 0).sum(-1, keepdim=True).to(x.dtype)
        elif not isinstance(alpha, Tensor) and alpha == 1.5:
            total, slope = rest.square().sum(-1, keepdim=True) / 4, rest.sum(-1, keepdim=True) / 2
        else:
            w = _power(rest, alpha)
            total, slope = w.sum(-1, keepdim=True), _support(w, alpha).sum(-1, keepdim=True)
        step = (total - 1) / slope.clamp_min(torch.finfo(x.dtype).tiny)
        tau = tau + step.clamp_min(0)
        if eager and x.device.type == "cpu" and bool((step <= torch.finfo(x.dtype).eps).all()):
            break
    return tau


def _bisected(x: Tensor, alpha: float | Tensor) -> Tensor:
    """Where Newton's monotony is not sure (alpha > 2) or alpha differs by head: 60 halvings of a sure bracket."""
    inverse = 1 / (alpha - 1)
    high = torch.zeros_like(x[..., :1])
    low = high - inverse
    for _ in range(60):
        middle = (low + high) / 2
        heavy = _power(x - middle, alpha).sum(-1, keepdim=True) >= 1
        low, high = torch.where(heavy, middle, low), torch.where(heavy, high, middle)
    return low


class _EntmaxFunction(torch.autograd.Function):
    """Weights with the sparse Jacobian diag(g) - g g^T / sum(g), g = w^(2 - alpha); the backward is differentiable."""

    generate_vmap_rule = True

    @staticmethod
    def forward(s: Tensor, alpha: Any, shape: float | None) -> Tensor:
        alpha = alpha if shape is None else shape
        peak, tau = peak_and_threshold(s, alpha)
        return _power(s - peak - tau, alpha)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, alpha, ctx.shape = inputs
        kept = (output, *([alpha] if ctx.shape is None else []))
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx: Any, dw: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        w, *rest = ctx.saved_tensors
        alpha = rest[0] if rest else ctx.shape
        g = _support(w, alpha)
        mean = (g * dw).sum(-1, keepdim=True) / g.sum(-1, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny)
        dalpha = None
        if rest and ctx.needs_input_grad[1]:
            dalpha = _over(alpha_gradient(w, dw, alpha), alpha)
        return g * (dw - mean), dalpha, None


class _EntmaxWithTangents(_EntmaxFunction):
    """The same with a forward-mode derivative, which torch.compile does not trace."""

    @staticmethod
    def jvp(ctx: Any, ds: Tensor | None, dalpha: Tensor | None, _: None) -> Tensor:
        """The Jacobian of scores is symmetric, so it takes tangents as it takes gradients."""
        w, *rest = ctx.saved_tensors
        alpha = rest[0] if rest else ctx.shape
        found = torch.zeros_like(w)
        if ds is not None:
            g = _support(w, alpha)
            least = torch.finfo(w.dtype).tiny
            found = torch.where(
                g > 0, g * (ds - (g * ds).sum(-1, keepdim=True) / g.sum(-1, keepdim=True).clamp_min(least)), 0.0
            )
        return found if dalpha is None else found + _alpha_slope(w, alpha) * dalpha


def _with_tangents() -> type[_EntmaxFunction]:
    """What computes the weights: with a forward-mode derivative, unless the call is being compiled."""
    return _EntmaxFunction if torch.compiler.is_compiling() else _EntmaxWithTangents


def alpha_gradient(w: Tensor, dw: Tensor, alpha: float | Tensor) -> Tensor:
    """Contribution of each row to d loss / d alpha, (..., n, 1). Correia et al. 2019."""
    return (_alpha_slope(w, alpha) * dw).sum(-1, keepdim=True)


def _alpha_slope(w: Tensor, alpha: float | Tensor) -> Tensor:
    """d w / d alpha."""
    g = _support(w, alpha)
    log_w = torch.where(w > 0, w, 1.0).log()
    share = g / g.sum(-1, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny)
    entropy = -(w * log_w).sum(-1, keepdim=True)
    return (w - share) / (alpha - 1) ** 2 - (w * log_w + share * entropy) / (alpha - 1)


def _over(value: Tensor, like: Tensor) -> Tensor:
    return value.sum_to_size(like.shape)


class Entmax(Alignment, name="entmax15", page="sparse"):
    """Between softmax (alpha = 1) and sparsemax (alpha = 2): sparse rows that still sum to one.

        w_ij = [(alpha - 1)(s_ij - tau_i)]_+ ^ (1 / (alpha - 1)),   tau_i such that the row sums to one

    Also known as: entmax, alpha-entmax, 1.5-entmax.
    s (..., n, m) -> w (..., n, m). Peters et al. 2019; learned alpha (one a head, in (1, 2)): Correia et al. 2019.
    A score that lies 1 / (alpha - 1) or more under the largest gets exactly 0.
    """

    kept = ("fixed",)

    def __init__(self, alpha: float = 1.5, learned: bool = False, heads: int = 1):
        super().__init__()
        self.fixed = number(alpha, "Entmax", "alpha", LEAST, MOST, "; alpha = 1 is Softmax()")
        heads, learned = whole(heads, "Entmax", "heads"), flag(learned, "Entmax", "learned")
        self.raw: Tensor | None = None
        if learned:
            if not self.fixed < 2:
                raise ValueError(f"Entmax(alpha={alpha}, learned=True): a learned alpha starts between 1 and 2.")
            self.raw = nn.Parameter(torch.full((heads,), alpha - 1.0).logit())

    def check(self, q: Tensor, k: Tensor) -> None:
        if self.raw is not None:
            check_heads(self, self.raw.shape[0], q.shape[1])

    def plan_key(self) -> Hashable | None:
        return None if self.raw is not None or isinstance(self.fixed, Tensor) else (Entmax, self.fixed)

    @property
    def alpha(self) -> float | Tensor:  # type: ignore[override]
        """The constant, or 1 + sigmoid(raw), one a head."""
        return self.fixed if self.raw is None else 1 + torch.sigmoid(self.raw)

    def kernel_form(self) -> AlignmentForm:
        if getattr(self, "raw", None) is not None:
            return AlignmentForm("learned entmax", POWER, self.fixed)
        if self.fixed in (1.5, 2.0):
            return AlignmentForm(
                *(("sparsemax", POSITIVE_PART) if self.fixed == 2.0 else ("entmax 1.5", SQUARE)), self.fixed
            )
        return AlignmentForm(
            "entmax of alpha up to 2" if self.fixed <= 2 else "entmax of alpha over 2", POWER, self.fixed
        )

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        alpha = self.alpha
        return entmax(s, keep, alpha.to(s.dtype)[:, None, None] if isinstance(alpha, Tensor) else alpha)

    def _beside(self, s: Tensor, context: RowContext) -> float | Tensor:
        """alpha beside a slab of scores (g, [F,] r, c)."""
        if context.alpha is None:
            return self.fixed
        return context.alpha[context.slab].to(s.dtype).reshape((-1,) + (1,) * (s.ndim - 1))

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        return RowState(threshold(s, self._beside(s, context)))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        return _power(s - state.tau[..., None], self._beside(s, context))

    def weights_of_rows(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        alpha, on_host = self._beside(s, context), s.device.type == "cpu"
        if s.shape[-1] == 0 or (on_host and not tau_rounding_matters(state.tau)):
            return self.weights(s, state, context)
        known = not on_host and (isinstance(alpha, Tensor) or alpha <= 2)
        peak, tau = refined_threshold(s, state.tau, alpha) if known else peak_and_threshold(s, alpha)
        empty = state.tau[..., None] == float("inf")  # with a sink, rows without a key have a threshold too
        return _power(s - peak - tau.masked_fill(empty, float("inf")), alpha)

    def state_and_weights(self, s: Tensor, context: RowContext = NO_CONTEXT) -> tuple[RowState, Tensor]:
        """From the largest score and the rest of tau apart, which is exact whatever their sum rounds to."""
        alpha = self._beside(s, context)
        peak, tau = peak_and_threshold(s, alpha)
        return RowState((tau + peak).squeeze(-1)), _power(s - peak - tau, alpha)

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        alpha = self._beside(s, context)
        if context.alpha is not None:
            grads.of(context.alpha)[context.slab] += alpha_gradient(w, dw, alpha).flatten(1).sum(1)
        g = _support(w, alpha)
        return g * (dw - (g * dw).sum(-1, keepdim=True) / g.sum(-1, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny))


def entmax(s: Tensor, keep: Tensor | None, alpha: float | Tensor) -> Tensor:
    """The weights, differentiable twice; alpha a number, or a tensor that broadcasts to s."""
    if keep is not None:
        s = s.masked_fill(~keep, float("-inf"))
    if isinstance(alpha, Tensor):
        return zeroed(apply_function(_with_tangents(), s, alpha, None), keep)
    return zeroed(apply_function(_with_tangents(), s, None, alpha), keep)


class Sparsemax(Entmax, name="sparsemax", page="sparse"):
    """The closest distribution to the scores, by Euclidean distance.

        w_i = argmin_p |p - s_i|^2 over the simplex = [s_i - tau_i]_+

    Also known as: sparse softmax.
    Martins & Astudillo 2016. The identity on rows that already are distributions.
    """

    kernel_form = Entmax.kernel_form

    def __init__(self) -> None:
        super().__init__(2.0)

    def plan_key(self) -> Hashable | None:
        return Sparsemax, self.fixed
