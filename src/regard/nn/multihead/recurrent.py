"""Recurrent layers with a matrix state: linear attention, retention, gated variants, and the delta rule."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.core.arguments import checked, shown, whole
from regard.core.attend import Attended
from regard.core.maps.combined import CombinedMap
from regard.core.recurrent import linear_attend
from regard.core.scores import Rotary

from .projections import HeadNorm, check_divides, check_width, joined, split


class _Recurrent(nn.Module):
    """Projections and output of recurrent layers; subclasses define decay and update."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.width = check_divides(type(self).__name__, dim, heads)
        self.dim, self.heads = dim, heads
        self.q_proj, self.k_proj, self.v_proj, self.gate_proj, self.out_proj = (
            nn.Linear(dim, dim, bias=False) for _ in range(5)
        )
        self.norm = HeadNorm(self.width)

    def _projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        check_width(type(self).__name__, x, self.dim)
        q, k, v = (split(proj(x), self.heads) for proj in (self.q_proj, self.k_proj, self.v_proj))
        return q, k, v

    def _finished(self, x: Tensor, found: Attended) -> Attended:
        """Heads normalised, gated by swish, joined."""
        out = joined(self.norm(found.out)) * functional.silu(self.gate_proj(x))
        return Attended(self.out_proj(out), found.map, None, found.state)


class CausalLinearAttention(_Recurrent):
    """Linear attention: a feature-map kernel instead of softmax, whose sum over the past is a state; optional decay.

        S_t = g_h S_{t-1} + phi(k_t) v_t^T,   z_t = g_h z_{t-1} + phi(k_t),   y_t = S_t^T phi(q_t) / z_t . phi(q_t)

    x (..., n, dim)  ->  out (..., n, dim), the map (..., heads, n, n), and state (..., heads, d, d + 1)

    decay    g_h as slopes of ALiBi, g_h = exp(-slope_h), (heads,); none unless given

    Katharopoulos et al. 2020, phi(x) = elu(x) + 1. Its map is that of attend(score=LinearKernel() | ALiBi(slopes)) over
    Causal(): rows sum to one.
    """

    @checked
    def __init__(self, dim: int, heads: int, *, decay: Tensor | None = None):
        super().__init__(dim, heads)
        if decay is not None and (not isinstance(decay, Tensor) or tuple(decay.shape) != (heads,)):
            raise ValueError(
                f"CausalLinearAttention(decay={shown(decay)}): expected slopes, a tensor ({heads},), at least 0."
            )
        self.register_buffer("slopes", decay)

    def forward(self, x: Tensor, state: Tensor | None = None) -> Attended:
        q, k, v = self._projected(x)
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        slopes = self.slopes
        fade = None if slopes is None else -slopes[:, None].expand(q.shape[:-1])  # type: ignore[index]
        attended = linear_attend(q, k, functional.pad(v, (0, 1), value=1.0), log_decay=fade, state=state, scale=1.0)
        mass = attended.out[..., -1:]
        share = 1 / mass.detach()[..., 0].reshape(-1, x.shape[-2])
        out = Attended(attended.out[..., :-1] / mass, CombinedMap((attended.map,), (share,)), None, attended.state)
        return self._finished(x, out)


class Retention(_Recurrent):
    """Causal linear attention with a fixed exponential decay for each head.

        S_t = g_h S_{t-1} + k_t v_t^T,   y_t = S_t^T q_t / sqrt d,   g_h = 1 - 2^(-5 - h)

    x (..., n, dim)  ->  out (..., n, dim), the implied map (..., heads, n, n), and state (..., heads, d, d)

    Also known as: RetNet, retentive network, multi-scale retention.
    Sun et al. 2023, with rotary positions and a swish gate. A_ij = g^(i-j) q_i . k_j / sqrt d: ALiBi without a softmax.
    """

    @checked
    def __init__(self, dim: int, heads: int):
        super().__init__(dim, heads)
        self.register_buffer("log_decay", torch.log1p(-(2.0 ** -(5.0 + torch.arange(heads)))))
        self.rotary = Rotary(self.width)

    def forward(self, x: Tensor, state: Tensor | None = None, start: int = 0) -> Attended:
        """state of the previous tokens, and their number."""
        q, k, v = self._projected(x)
        q, k = self.rotary(q, start), self.rotary(k, start)
        decay = self.log_decay[:, None].expand(q.shape[:-1])  # type: ignore[index]
        return self._finished(x, linear_attend(q, k, v, log_decay=decay, state=state))


class LightningAttention(_Recurrent):
    """Linear attention of MiniMax: gated units, a fixed decay for each head, one norm for all.

        S_t = g_h S_{t-1} + k_t v_t^T,   y_t = S_t^T q_t,   q, k, v = silu(W x),   g_h = exp(-slope_h)

    x (..., n, dim)  ->  out (..., n, dim), the implied map (..., heads, n, n), and state (..., heads, d, d)

    depth, layers    the layer's place from 0, and their number: slope_h = 2^(-8 h / heads) (1 - depth / (layers - 1))

    Also known as: lightning attention, MiniMax-01, TransNormer.
    Qin et al. 2024; MiniMax 2025. A_ij = g^(i-j) q_i . k_j.
    """

    @checked
    def __init__(self, dim: int, heads: int, *, depth: int = 0, layers: int = 1):
        super().__init__(dim, heads)
        place = 1 - depth / (layers - 1 + 1e-5) + 1e-5
        self.register_buffer("slopes", place * 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads))
        self.norm = nn.RMSNorm(dim, eps=1e-6)  # type: ignore[assignment]

    def forward(self, x: Tensor, state: Tensor | None = None) -> Attended:
        q, k, v = (functional.silu(y) for y in self._projected(x))
        decay = -self.slopes[:, None].expand(q.shape[:-1])  # type: ignore[index]
        attended = linear_attend(q, k, v, log_decay=decay, state=state, scale=1.0)
        out = self.norm(joined(attended.out)) * torch.sigmoid(self.gate_proj(x))
        return Attended(self.out_proj(out), attended.map, None, attended.state)


class GatedLinearAttention(_Recurrent):
    """Causal linear attention with a data-dependent decay for every key feature.

        S_t = diag(a_t) S_{t-1} + k_t v_t^T,   y_t = S_t^T q_t / sqrt d,   a_t = sigmoid(W_2 W_1 x_t + b)^(1 / 16)

    x (..., n, dim)  ->  out (..., n, dim), the implied map (..., heads, n, n), and state (..., heads, d, d)

    rank    of the projection to the gates, 16 in the paper

    Also known as: GLA.
    Yang et al. 2024. A_ij = sum_c q_ic k_jc a_{j+1,c} ... a_ic / sqrt d.
    """

    @checked
    def __init__(self, dim: int, heads: int, *, rank: int = 16):
        super().__init__(dim, heads)
        self.decay_proj = nn.Sequential(nn.Linear(dim, rank, bias=False), nn.Linear(rank, dim))

    def forward(self, x: Tensor, state: Tensor | None = None) -> Attended:
        q, k, v = self._projected(x)
        decay = functional.logsigmoid(split(self.decay_proj(x), self.heads)) / 16
        return self._finished(x, linear_attend(q, k, v, log_decay=decay, state=state))


class GatedDeltaNet(_Recurrent):
    """The gated delta rule: a key's old value is removed from the state before the new one is written.

        S_t = a_t (I - b_t k_t k_t^T) S_{t-1} + b_t k_t v_t^T,   y_t = S_t^T q_t
        k, q of length 1,   b_t = sigmoid(w_b x_t),   a_t = exp(-exp(A) softplus(w_a x_t + d)), or 1 without gate

    x (..., n, dim)  ->  out (..., n, dim), the implied map (..., heads, n, n), which is signed, and state

    gate    False is DeltaNet: no decay

    Also known as: DeltaNet, gated delta rule, GDN, fast weight programmer.
    Schlag et al. 2021; Yang et al. 2024, 2025, without their short convolutions. With b = 1, reading the key that
    was written last returns its value.
    """

    @checked
    def __init__(self, dim: int, heads: int, *, gate: bool = True):
        super().__init__(dim, heads)
        self.beta_proj = nn.Linear(dim, heads, bias=False)
        self.decay_proj = nn.Linear(dim, heads) if gate else None
        self.rate = nn.Parameter(torch.zeros(heads)) if gate else None

    def forward(self, x: Tensor, state: Tensor | None = None) -> Attended:
        q, k, v = self._projected(x)
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
        beta = torch.sigmoid(self.beta_proj(x)).transpose(-1, -2)
        decay = None
        if self.decay_proj is not None and self.rate is not None:
            decay = (-self.rate.exp() * functional.softplus(self.decay_proj(x))).transpose(-1, -2)
        return self._finished(x, linear_attend(q, k, v, log_decay=decay, beta=beta, state=state, scale=1.0))


class KimiDeltaAttention(_Recurrent):
    """The gated delta rule with a decay for every key feature.

        S_t = (I - b_t k_t k_t^T) diag(a_t) S_{t-1} + b_t k_t v_t^T,   y_t = S_t^T q_t / sqrt d
        k, q of length 1,   b_t = sigmoid(w_b x_t),   a_t = exp(-exp(A_h) softplus(W_2 W_1 x_t + c))

    x (..., n, dim)  ->  out (..., n, dim), the implied map (..., heads, n, n), which is signed, and state

    rank    of the projection to the gates; the width of a head unless given

    Also known as: KDA, Kimi Linear.
    Kimi Team 2025, without its short convolutions. With equal decay for all features of a head it is the gated delta
    rule.
    """

    @checked
    def __init__(self, dim: int, heads: int, *, rank: int | None = None):
        super().__init__(dim, heads)
        rank = whole(self.width if rank is None else rank, "KimiDeltaAttention", "rank")
        self.beta_proj = nn.Linear(dim, heads, bias=False)
        self.decay_proj = nn.Sequential(nn.Linear(dim, rank, bias=False), nn.Linear(rank, dim))
        self.rate = nn.Parameter(torch.zeros(heads))

    def forward(self, x: Tensor, state: Tensor | None = None) -> Attended:
        q, k, v = self._projected(x)
        q, k = functional.normalize(q, dim=-1), functional.normalize(k, dim=-1)
        beta = torch.sigmoid(self.beta_proj(x)).transpose(-1, -2)
        decay = -self.rate.exp()[:, None, None] * functional.softplus(split(self.decay_proj(x), self.heads))
        return self._finished(x, linear_attend(q, k, v, log_decay=decay, beta=beta, state=state))
