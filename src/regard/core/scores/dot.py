"""Multiplicative scores: dot and scaled dot."""

import math
from collections.abc import Hashable

from torch import Tensor

from ..arguments import flag, number
from ..lowering.score_kernels import DotCore, PairCore
from .score import Lowered, Score, flat


class Dot(Score, name="dot"):
    """The query and the key point the same way.

        s_ij = q_i . k_j                      features=True: s_ijd = q_id k_jd

    q (..., H, n, d), k (..., H, m, d)  ->  s (..., H, n, m)

    Also known as: dot-product attention, inner product.
    Luong et al. 2015. Not invariant to a common shift of queries and keys; doubling a key doubles its score.
    """

    one_width = True

    def __init__(self, features: bool = False):
        super().__init__()
        self.by_feature = flag(features, type(self).__name__, "features")

    def plan_key(self) -> Hashable | None:
        return None if self.by_feature else (Dot,)

    def scale(self, q: Tensor) -> float:
        return 1.0

    def dot_scale(self, q: Tensor) -> float | None:
        return None if self.by_feature else self.scale(q)

    def keeps_keys(self) -> bool:
        return not self.by_feature

    def feature_count(self, q: Tensor) -> int | None:
        return q.shape[-1] if self.by_feature else None

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        scale = self.scale(q)
        if self.by_feature:
            return q.transpose(-1, -2).unsqueeze(-1) * scale * k.transpose(-1, -2).unsqueeze(-2)
        return (q * scale if scale != 1.0 else q) @ k.transpose(-1, -2)

    def shares_keys(self) -> bool:
        return True

    def edge_part(self, key: Tensor, join: str) -> Tensor | None:
        return key

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        scale = self.scale(q)
        if self.by_feature:
            a = flat(q) if scale == 1.0 else flat(q) * scale
            return Lowered(PairCore(a, flat(k), None, act="identity", join="mul"))
        return Lowered(DotCore(flat(q), flat(k), scale))


class ScaledDot(Dot, name="scaled_dot", page="dot"):
    """Dot, kept at unit variance whatever the width.

        s_ij = q_i . k_j / sqrt(d)

    q (..., H, n, d), k (..., H, m, d)  ->  s (..., H, n, m)

    Also known as: scaled dot-product attention, SDPA, transformer attention.
    Vaswani et al. 2017. For independent unit-variance entries the score has variance 1 at every width.
    """

    def __init__(self, features: bool = False, scale: float | None = None):
        super().__init__(features)
        self.fixed = (
            None
            if scale is None
            else number(scale, "ScaledDot", "scale", hint="; one that is learned multiplies q before the call")
        )

    def plan_key(self) -> Hashable | None:
        return None if self.by_feature or isinstance(self.fixed, Tensor) else (ScaledDot, self.fixed)

    def shares_keys(self) -> bool:
        return True

    def scale(self, q: Tensor) -> float:
        return 1.0 / math.sqrt(max(1, q.shape[-1])) if self.fixed is None else self.fixed
