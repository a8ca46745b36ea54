"""Alignments that select keys: top-k, hard (sampled or argmax), Gumbel-softmax. The row state has their index.

Membership is read from the index and never recomputed, because scores computed in other tiles may flip a tie.
"""

import torch
from torch import Tensor

from ..arguments import SMALLEST, flag, number, whole
from ..lowering.kernel_forms import ALL_KEYS, BEST_KEYS, EXPONENTIAL, ONE_KEY, AlignmentForm
from ..lowering.score_kernels import Grads
from .alignment import NO_CONTEXT, Alignment, RowContext, RowState, log_sum_exp, masked, summing_to_one, zeroed
from .soft import Softmax


def _is_chosen(index: Tensor, context: RowContext, s: Tensor) -> Tensor:
    """Bool like s: which columns stand in a row's index, (..., r) or (..., r, k)."""
    assert context.key is not None
    index = index if index.ndim == s.ndim else index.unsqueeze(-1)
    columns = context.key.to(index.dtype)
    hit = torch.zeros(s.shape, dtype=torch.bool, device=s.device)
    for slot in range(index.shape[-1]):  # k comparisons of (r, c), never an (r, c, k) tensor
        hit |= index[..., slot, None] == columns
    return hit & (s != float("-inf"))


class TopK(Softmax):
    """Softmax over the k best keys of each row; the others get exactly 0.

        w_ij = exp(s_ij - tau_i) if j is among the k largest scores of row i, else 0

    Also known as: top-k softmax, k-NN attention, explicit sparse attention.
    s (..., n, m) -> w (..., n, m). Ties go to whichever key torch.topk takes. k >= m is softmax. Gupta et al. 2021.
    """

    kept = ("k",)
    chooses = True

    def __init__(self, k: int):
        super().__init__()
        self.k: int = whole(k, "TopK", "k")

    def kernel_form(self) -> AlignmentForm:
        return AlignmentForm("top-k", EXPONENTIAL, keys=BEST_KEYS, top=self.k)

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        s = masked(s, keep)
        if self.k >= s.shape[-1]:
            return zeroed(torch.softmax(s, -1), keep)
        best, index = s.topk(self.k, -1)
        return zeroed(torch.zeros_like(s).scatter(-1, index, torch.softmax(best, -1)), keep)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        best, place = s.topk(min(self.k, s.shape[-1]), -1)
        index = _columns_at(place, context).masked_fill(best == float("-inf"), -1)
        return RowState(log_sum_exp(best), index.to(torch.int32))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        assert state.index is not None
        return torch.exp(s - state.tau[..., None]).where(_is_chosen(state.index, context, s), 0.0)


def _columns_at(place: Tensor, context: RowContext) -> Tensor:
    """From places within a tile to keys."""
    key = context.key
    if key is None:
        return place
    return key[place] if key.ndim == 1 else key.expand(*place.shape[:-1], key.shape[-1]).gather(-1, place)


class Hard(Alignment, name="hard"):
    """Look at one key: drawn from the softmax (attend(sample=True)), or the best one.

        index_i ~ Categorical(softmax(s_i)),   w_ij = 1 if j = index_i else 0

    Also known as: hard attention, argmax attention.
    s (..., n, m) -> one-hot w. The draw is Gumbel-max on counter-based noise, so maps and replays see the same key.
    Xu et al. 2015. No gradient reaches the scores through the weights: train with `Attended.sample.surrogate(loss)`,
    which has the log-probability s_index - log sum exp s and the entropy.
    """

    samples = True
    chooses = True
    reports_draw = True

    def kernel_form(self) -> AlignmentForm:
        return AlignmentForm("hard", EXPONENTIAL, keys=ONE_KEY)

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        if s.shape[-1] == 0:
            return torch.zeros_like(s)
        noisy = s.detach() if noise is None else s.detach() + noise
        index = masked(noisy, keep).argmax(-1, keepdim=True)
        return zeroed(torch.zeros_like(s).scatter(-1, index, 1.0), keep)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        tau = log_sum_exp(s)
        if s.shape[-1] == 0:
            return RowState(tau, torch.full(tau.shape, -1, dtype=torch.int32, device=s.device))
        place = (s if context.noise is None else s + context.noise).argmax(-1, keepdim=True)
        index = _columns_at(place, context).squeeze(-1).masked_fill(tau == float("inf"), -1)
        return RowState(tau, index.to(torch.int32))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        assert state.index is not None
        return _is_chosen(state.index, context, s).to(s.dtype)

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        return torch.zeros_like(s)


class Gumbel(Alignment, name="gumbel", page="hard"):
    """A soft draw: noise, then softmax; a low temperature makes it nearly one-hot.

        w_i = softmax((s_i + g_i) / temperature),   g = -log(-log U)          (g = 0 unless attend(sample=True))

    Also known as: Gumbel-softmax, concrete distribution.
    s (..., n, m) -> w (..., n, m). straight_through=True: the weights are one-hot at the largest, the gradient that of
    the soft weights (biased). Jang et al. 2017; Maddison et al. 2017. argmax(s + g) is distributed as softmax(s).
    """

    kept = ("temperature", "straight_through")
    samples = True

    def __init__(self, temperature: float = 1.0, straight_through: bool = False):
        super().__init__()
        self.temperature = number(temperature, "Gumbel", "temperature", SMALLEST)
        self.straight_through = flag(straight_through, "Gumbel", "straight_through")

    @property
    def chooses(self) -> bool:  # type: ignore[override]
        return self.straight_through

    def _noisy(self, s: Tensor, noise: Tensor | None) -> Tensor:
        return (s if noise is None else s + noise) / self.temperature

    def kernel_form(self) -> AlignmentForm:
        return AlignmentForm(
            "Gumbel", EXPONENTIAL, keys=ONE_KEY if self.straight_through else ALL_KEYS, temperature=self.temperature
        )

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        z = masked(self._noisy(s, noise), keep)
        soft = torch.softmax(z, -1)
        if self.straight_through and s.shape[-1]:
            hard = torch.zeros_like(s).scatter(-1, z.argmax(-1, keepdim=True), 1.0)
            soft = hard + (soft - soft.detach())
        return zeroed(soft, keep)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        z = self._noisy(s, context.noise)
        tau = log_sum_exp(z)
        if not self.straight_through:
            return RowState(tau)
        if s.shape[-1] == 0:
            return RowState(tau, torch.full(tau.shape, -1, dtype=torch.int32, device=s.device))
        index = _columns_at(z.argmax(-1, keepdim=True), context).squeeze(-1).masked_fill(tau == float("inf"), -1)
        return RowState(tau, index.to(torch.int32))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        if self.straight_through:
            assert state.index is not None
            return _is_chosen(state.index, context, s).to(s.dtype)
        return torch.exp(self._noisy(s, context.noise) - state.tau[..., None])

    def whole(self, w: Tensor) -> Tensor:
        return w if self.straight_through else summing_to_one(w)

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        soft = w
        if self.straight_through:
            soft = summing_to_one(torch.exp(self._noisy(s, context.noise) - state.tau[..., None]))
        return soft * (dw - (soft * dw).sum(-1, keepdim=True)) / self.temperature
