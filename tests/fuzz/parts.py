"""What random plans are made of: scores of any width, modifiers of any kind, and how tensors lie in memory.

Alignments and structures are those of tests/catalogue.py. Here widths are free, which that catalogue fixes.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from tests.catalogue import OwnFeatures, OwnModifier, OwnScore, forgetting
from torch import Tensor

from regard import (
    FIRE,
    GAT,
    ActivatedGeneral,
    Activation,
    Additive,
    ALiBi,
    BiasedGeneral,
    Content,
    ConvolvedDot,
    CoPE,
    Cosine,
    Dot,
    GATv2,
    Gaussian,
    General,
    Kerple,
    Laplace,
    LearnedQuery,
    LinearKernel,
    Location,
    Modifier,
    QueryFree,
    RelativeBias,
    ScaledDot,
    Score,
    Sink,
    SoftCap,
    T5Bias,
    Trilinear,
)
from regard.core.modifiers import Clamp, PairBias, SharedPairBias

Leaf = Callable[..., Tensor]  # leaf(*shape): numbers whose gradient is compared


class Sizes(NamedTuple):
    """What parts are built for."""

    batch: int
    heads: int
    n: int
    m: int
    d_q: int
    d_k: int
    d_v: int
    hidden: int  # of additive scores


class Family(NamedTuple):
    """A score of any width. Equal: of one width for queries and keys. Wide: one weight a feature of the values."""

    make: Callable[[Sizes], Score]
    equal: bool = True
    wide: bool = False  # values are as wide as the score has features
    own_width: bool = False  # the features are the width of queries, so values are as wide as those


SCORES: dict[str, Family] = {
    "dot": Family(lambda s: Dot()),
    "scaled dot": Family(lambda s: ScaledDot()),
    "scaled dot, scale .3": Family(lambda s: ScaledDot(0.3)),
    "general": Family(lambda s: General(s.d_q, s.d_k, s.heads), equal=False),
    "general, one W": Family(lambda s: General(s.d_q, s.d_k), equal=False),
    "biased general": Family(lambda s: BiasedGeneral(s.d_q, s.d_k, s.heads), equal=False),
    "activated general": Family(lambda s: ActivatedGeneral(s.d_q, s.d_k, s.heads), equal=False),
    "additive": Family(lambda s: Additive(s.d_q, s.d_k, s.hidden, s.heads), equal=False),
    "additive, W = I": Family(lambda s: Additive()),
    "additive relu": Family(lambda s: Additive(s.d_q, s.d_k, s.hidden, activation="relu"), equal=False),
    "additive leaky": Family(
        lambda s: Additive(s.d_q, s.d_k, s.hidden, s.heads, activation="leaky_relu", slope=0.1), equal=False
    ),
    "additive |x|": Family(lambda s: Additive(s.d_q, s.d_k, s.hidden, activation="negative_abs"), equal=False),
    "additive sigmoid": Family(lambda s: Additive(s.d_q, s.d_k, s.hidden, activation="sigmoid"), equal=False),
    "cosine": Family(lambda s: Cosine(3.0)),
    "content": Family(lambda s: Content(s.d_q, s.heads)),
    "gaussian": Family(lambda s: Gaussian(1.5)),
    "gaussian, learned": Family(lambda s: Gaussian(1.5, learned=True, heads=s.heads)),
    "laplace": Family(lambda s: Laplace(2.0)),
    "trilinear": Family(lambda s: Trilinear(s.d_q, s.heads)),
    "linear kernel": Family(lambda s: LinearKernel()),
    "location": Family(lambda s: Location(s.d_q, s.m + 2, s.heads), equal=False),
    "query-free": Family(lambda s: QueryFree(s.d_k, s.hidden, s.heads), equal=False),
    "learned query": Family(lambda s: LearnedQuery(s.d_k, s.heads), equal=False),
    "gat": Family(lambda s: GAT(s.d_q, s.heads)),
    "gatv2": Family(lambda s: GATv2(s.d_q, s.heads)),
    "contextual": Family(lambda s: CoPE(s.d_q, s.heads, 5)),
    "convolved": Family(lambda s: ConvolvedDot(s.heads, 3, 4)),
    "own": Family(lambda s: OwnScore(s.d_q, s.heads)),
    "dot by feature": Family(lambda s: Dot(features=True), wide=True, own_width=True),
    "scaled dot by feature": Family(lambda s: ScaledDot(features=True), wide=True, own_width=True),
    "laplace by feature": Family(lambda s: Laplace(features=True), wide=True, own_width=True),
    "gaussian by feature": Family(lambda s: Gaussian(features=True), wide=True, own_width=True),
    "own by feature": Family(lambda s: OwnFeatures(s.d_q, s.heads), wide=True, own_width=True),
    "general by feature": Family(
        lambda s: General(s.d_q, s.d_k, s.heads, features=s.d_v), equal=False, wide=True
    ),
    "additive by feature": Family(
        lambda s: Additive(s.d_q, s.d_k, s.hidden, s.heads, features=s.d_v), equal=False, wide=True
    ),
    "query-free by feature": Family(
        lambda s: QueryFree(s.d_k, s.hidden, s.heads, features=s.d_v), equal=False, wide=True
    ),
}  # fmt: skip

MODIFIERS: dict[str, Callable[[Sizes, Leaf], Modifier]] = {
    "soft cap": lambda s, leaf: SoftCap(1.5),
    "clamp": lambda s, leaf: Clamp(1.25),
    "alibi": lambda s, leaf: ALiBi(s.heads, align="end"),
    "alibi, learned": lambda s, leaf: ALiBi(s.heads, learned=True, align="start"),
    "relative bias": lambda s, leaf: RelativeBias(s.heads, 2, align="end"),
    "one relative bias": lambda s, leaf: RelativeBias(1, 5, align="start"),
    "t5 bias": lambda s, leaf: T5Bias(s.heads, align="end"),
    "kerple": lambda s, leaf: Kerple(s.heads, align="end"),
    "fire": lambda s, leaf: FIRE(s.heads, hidden=4, align="end"),
    "forgetting": lambda s, leaf: forgetting(s.heads, s.m),
    "activation": lambda s, leaf: Activation("tanh", bias=s.heads),
    "leaky activation": lambda s, leaf: Activation("leaky_relu"),
    "pair bias": lambda s, leaf: PairBias(leaf(s.batch, s.heads, s.n, s.m)),
    "pair bias of heads": lambda s, leaf: PairBias(leaf(s.heads, s.n, s.m)),
    "pair bias of all": lambda s, leaf: PairBias(leaf(s.n, s.m)),
    "pair bias of several items": lambda s, leaf: SharedPairBias(leaf(-(-s.batch // 2), s.heads, s.n, s.m), 2),
    "bias of keys": lambda s, leaf: PairBias(leaf(s.batch, 1, 1, s.m)),
    "own": lambda s, leaf: OwnModifier(s.heads),
    "sink": lambda s, leaf: Sink(leaf(s.heads)),
}

# Those that kernels have functions for, and one of a user.
OTHERS = ("fire", "kerple", "forgetting", "activation", "leaky activation")
FUSED = [name for name in MODIFIERS if name not in OTHERS]


def _node_major(x: Tensor) -> Tensor:
    """(B, n, H, d) in memory."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _room_for(x: Tensor, *pads: int) -> Tensor:
    return torch.nn.functional.pad(x, pads, value=float("nan"))


# Each makes a view with the numbers of x (B, H, n, d), surrounded by NaN where it lies in something larger.
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "node-major": _node_major,
    "columns of a wider one": lambda x: _room_for(x, 0, 3)[..., : x.shape[-1]],
    "later columns": lambda x: _room_for(x, 5, 0)[..., 5:],
    "every second row": lambda x: _room_for(x[..., None, :], 0, 0, 0, 1).flatten(-3, -2)[..., ::2, :],
    "transposed": lambda x: x.mT.contiguous().mT,
    "one number off": lambda x: _room_for(x.reshape(-1), 1, 0)[1:].view(x.shape),
}
