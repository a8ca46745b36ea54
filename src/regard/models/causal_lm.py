"""A causal language model with any mechanism as its token mixer, for comparing mechanisms."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.attend import Attended, attend
from ..core.modifiers import FIRE, ALiBi, ForgettingGate, Kerple, T5Bias
from ..core.scores import CoPE, ScaledDot
from ..core.structures import Causal, Structure, Window
from ..nn.attention import Attention
from ..nn.multihead import (
    DifferentialAttention,
    GatedAttention,
    GatedDeltaNet,
    GatedLinearAttention,
    IndexedAttention,
    LatentAttention,
    Mamba2,
    MixtureOfBlockAttention,
    MultiTokenAttention,
    NativeSparseAttention,
    Retention,
    TalkingHeadsAttention,
    TensorProductAttention,
)

Mixer = Callable[[int, int, int], nn.Module]  # of width, heads and depth: x (B, n, width) -> Attended


class Over(nn.Module):
    """Calls a layer with a fixed structure, causal by default."""

    def __init__(self, layer: nn.Module, over: Structure | None = None):
        super().__init__()
        self.layer, self.over = layer, Causal() if over is None else over

    def forward(self, x: Tensor) -> Attended:
        found: Attended = self.layer(x, over=self.over)
        return found


class ForgettingAttention(nn.Module):
    """Softmax attention with a forget gate for each head and token. Lin et al. 2025 (FoX)."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.attention = Attention(dim, heads, bias=False)
        self.gate = nn.Linear(dim, heads)
        nn.init.constant_(self.gate.bias, 3.0)  # gates start near 1

    def forward(self, x: Tensor) -> Attended:
        log_f = F.logsigmoid(self.gate(x)).mT
        inner = self.attention
        q, k, v = (split(proj(x), inner.heads) for proj in (inner.q_proj, inner.k_proj, inner.v_proj))
        attended = attend(q, k, v, ScaledDot() | ForgettingGate(log_f), over=Causal())
        return Attended(inner.out_proj(attended.out.transpose(-3, -2).flatten(-2)), attended.map)


def split(x: Tensor, heads: int) -> Tensor:
    """(..., n, H d) -> (..., H, n, d)."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


STRETCH = 1 << 20  # more than any sequence length


def _plain(**options: Any) -> Mixer:
    return lambda width, heads, depth: Over(Attention(width, heads, bias=False, **options))


def _scored(modifier: Callable[[int], Any], **options: Any) -> Mixer:
    return lambda width, heads, depth: Over(
        Attention(width, heads, bias=False, score=ScaledDot() | modifier(heads), **options)
    )


def _layer(make: Callable[..., nn.Module], **options: Any) -> Mixer:
    """A mixer from a layer with (width, heads) that takes a structure."""
    return lambda width, heads, depth: Over(make(width, heads, **options))


# Sizes of windows, blocks and top-k are for sequences of about sixty tokens.
MIXERS: dict[str, Mixer] = {
    "rope": _plain(rotary=True),
    "nope": _plain(),
    "alibi": _scored(ALiBi),
    "t5": _scored(lambda heads: T5Bias(heads, both_sides=False)),
    "kerple": _scored(Kerple),
    "fire": _scored(FIRE),
    "cope": lambda width, heads, depth: Over(
        Attention(width, heads, bias=False, score=CoPE(width // heads, heads, positions=32))
    ),
    "forgetting": lambda width, heads, depth: ForgettingAttention(width, heads),
    "window": lambda width, heads, depth: Over(Attention(width, heads, bias=False, rotary=True), Causal(window=16)),
    "entmax15": _plain(rotary=True, align="entmax15"),
    "sigmoid": _plain(rotary=True, align="sigmoid"),
    "softpick": _plain(rotary=True, align="softpick"),
    "softmax1": _plain(rotary=True, align="softmax1"),
    "stick_breaking": lambda width, heads, depth: Over(
        Attention(width, heads, bias=False, align="stick_breaking"), Window(STRETCH, -1)
    ),
    "differential": lambda width, heads, depth: Over(DifferentialAttention(width, heads, depth=depth)),
    "gated": _layer(GatedAttention, bias=False, rotary=True),
    "talking_heads": _layer(TalkingHeadsAttention, bias=False),
    "latent": lambda width, heads, depth: Over(LatentAttention(width, heads, latent=width // 2, rope=width // heads)),
    "tensor_product": _layer(TensorProductAttention),
    "multi_token": _layer(MultiTokenAttention),
    "moba": _layer(MixtureOfBlockAttention, block=8, top=3),
    "native_sparse": _layer(NativeSparseAttention, block=8, top=3, window=16),
    "indexed": _layer(IndexedAttention, top=16, index_heads=2, index_d=16),
    "retention": lambda width, heads, depth: Retention(width, heads),
    "gla": lambda width, heads, depth: GatedLinearAttention(width, heads),
    "gated_delta": lambda width, heads, depth: GatedDeltaNet(width, heads),
    "delta": lambda width, heads, depth: GatedDeltaNet(width, heads, gate=False),
    "mamba2": lambda width, heads, depth: Mamba2(width, state=width, d=width // heads),
}


class ShortConvolution(nn.Module):
    """Depthwise causal convolution with residual: x_t += sum_s w_s x_{t-s}, initialised at 0."""

    def __init__(self, width: int, taps: int):
        super().__init__()
        self.taps = taps
        self.weight = nn.Parameter(torch.zeros(width, 1, taps))

    def forward(self, x: Tensor) -> Tensor:
        mixed = F.conv1d(F.pad(x.mT, (self.taps - 1, 0)), self.weight, groups=x.shape[-1])
        return x + mixed.mT


class CausalLanguageModel(nn.Module):
    """Pre-norm blocks of a token mixer and an MLP; positions only through the mixer.

        h = E[x],   h += mixer(conv(norm(h))),   h += W_2 gelu(W_1 norm(h)),   logits = U norm(h)

    tokens (B, n)  ->  logits (B, n, vocabulary)

    mixer   a name of `MIXERS`, or a function (width, heads, depth) -> layer of your own, called as layer(x), which must
            be causal and return a tensor or what attend returns
    conv    width of a short convolution before each mixer, as in many recurrent layers; 0 for none

    Row i of the logits depends on tokens 0..i alone.
    """

    def __init__(
        self,
        vocabulary: int,
        mixer: "str | Mixer" = "rope",
        width: int = 64,
        heads: int = 4,
        layers: int = 2,
        conv: int = 0,
    ):
        super().__init__()
        if isinstance(mixer, str) and mixer not in MIXERS:
            raise ValueError(f"CausalLanguageModel(mixer={mixer!r}): expected one of {', '.join(MIXERS)}.")
        make = MIXERS[mixer] if isinstance(mixer, str) else mixer
        self.embedding = nn.Embedding(vocabulary, width)
        self.mixers = nn.ModuleList(make(width, heads, depth) for depth in range(layers))
        self.convs = nn.ModuleList(ShortConvolution(width, conv) if conv else nn.Identity() for _ in range(layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * layers + 1))
        self.logits = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.embedding(tokens)
        for place, (mixer, mlp) in enumerate(zip(self.mixers, self.mlps, strict=True)):
            mixed = mixer(self.convs[place](self.norms[2 * place](h)))
            h = h + (mixed if isinstance(mixed, Tensor) else mixed.out)
            h = h + mlp(self.norms[2 * place + 1](h))
        found: Tensor = self.logits(self.norms[-1](h))
        return found
