"""Mamba-2: a state space model whose dual form is attention with a decay."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.core.arguments import checked, whole
from regard.core.attend import Attended
from regard.core.recurrent import linear_attend

from .projections import check_width, joined, split


class Mamba2(nn.Module):
    """A selective state space model: B writes the state, C reads it, and dt sets its decay token by token.

        S_t = exp(A_h dt_t) S_{t-1} + B_t (dt_t x_t)^T,   y_t = S_t^T C_t + D_h x_t
        [z; x, B, C; dt] = W_in u,  x, B, C through a short causal convolution,  dt = softplus(dt + bias)
        out = W_out norm(y silu(z))

    u (..., n, dim)  ->  out (..., n, dim), the implied map (..., heads, n, n), and the state of both, convolution and
    recurrence

    dim, state, d     width, state size of each feature of a head (128), and the width of a head (64)
    expand, groups    heads = expand dim / d; each group of heads shares B and C
    conv              tokens of the short convolution

    Also known as: SSD, state space duality, structured masked attention.
    Dao and Gu 2024. The dual form is A_ij = C_i . B_j exp(A (dt_{j+1} + ... + dt_i)) dt_j: linear attention with C for
    queries, B for keys and a decay. The map is that of the state; D x stands beside it. Weights are those of
    transformers' Mamba2Mixer (load_state_dict).
    """

    @checked
    def __init__(self, dim: int, *, state: int = 128, d: int = 64, expand: int = 2, groups: int = 1, conv: int = 4):
        super().__init__()
        name = type(self).__name__
        self.dim, self.d, self.groups, self.conv = dim, whole(d, name, "d"), whole(groups, name, "groups"), conv
        self.inner, self.size = whole(expand, name, "expand") * dim, whole(state, name, "state")
        if self.inner % d or (self.inner // d) % groups:
            raise ValueError(
                f"{name}(dim={dim}, expand={expand}, d={d}, groups={groups}): expected heads of width d to fill "
                f"{self.inner} numbers, and groups to divide their number."
            )
        self.heads = self.inner // d
        self.mixed = self.inner + 2 * groups * state  # what is convolved: x, B and C
        self.in_proj = nn.Linear(dim, self.inner + self.mixed + self.heads, bias=False)
        self.conv1d = nn.Conv1d(self.mixed, self.mixed, whole(conv, name, "conv"), groups=self.mixed)
        dt = torch.exp(torch.rand(self.heads) * math.log(100.0) + math.log(1e-3))  # 0.001 to 0.1, as in the paper
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.A_log = nn.Parameter(torch.log(torch.arange(1, self.heads + 1).float()))
        self.D = nn.Parameter(torch.ones(self.heads))
        self.norm = nn.RMSNorm(self.inner, eps=1e-5)
        self.out_proj = nn.Linear(self.inner, dim, bias=False)

    def forward(self, x: Tensor, state: Tensor | None = None) -> Attended:
        """state: `Attended.state` of the previous tokens, (..., numbers): the convolution's last inputs, and S."""
        check_width(type(self).__name__, x, self.dim)
        lead, n = x.shape[:-2], x.shape[-2]
        z, mixed, dt = self.in_proj(x).split([self.inner, self.mixed, self.heads], -1)
        held = self.mixed * (self.conv - 1)
        past = mixed.new_zeros(*lead, self.conv - 1, self.mixed) if state is None else state[..., :held]
        long = torch.cat([past.reshape(*lead, -1, self.mixed).to(mixed.dtype), mixed], -2)
        flat = long.reshape(-1, *long.shape[-2:]).mT
        mixed = functional.silu(self.conv1d(flat)).mT.reshape(*lead, n, self.mixed)
        v, keys, queries = mixed.split([self.inner, self.groups * self.size, self.groups * self.size], -1)
        each = self.heads // self.groups
        b, c = (split(y, self.groups).repeat_interleave(each, -3) for y in (keys, queries))
        value, step = split(v, self.heads), functional.softplus(dt + self.dt_bias).mT  # (..., heads, n)
        shape = (*lead, self.heads, self.size, self.d)
        attended = linear_attend(
            c,
            b * step[..., None],
            value,
            log_decay=-self.A_log.exp()[:, None] * step,
            state=None if state is None else state[..., held:].reshape(shape),
            scale=1.0,
        )
        y = joined(attended.out + self.D[:, None, None] * value)
        after = [long[..., long.shape[-2] - self.conv + 1 :, :].flatten(-2), attended.state.flatten(-3)]  # type: ignore[union-attr]
        return Attended(self.out_proj(self.norm(y * functional.silu(z))), attended.map, None, torch.cat(after, -1))
