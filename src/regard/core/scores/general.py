"""Bilinear scores: general, biased general, activated general. Without sizes W is the identity."""

import torch
from torch import Tensor, nn

from ..arguments import sizes, whole
from ..errors import check_built
from ..lowering.score_kernels import DotCore
from ..modifiers.pointwise import Activation
from .score import Lowered, Score, check_alike, flat


class General(Score, name="general"):
    """A learned matrix compares spaces of different widths.

        s_ij = k_j^T W q_i                    features=F: s_ijf = k_j^T W_f q_i

    q (..., H, n, d_q), k (..., H, m, d_k)  ->  s (..., H, n, m) or (..., H, F, n, m);  W (H or 1, [F,] d_k, d_q)

    Also known as: Luong attention, bilinear, multiplicative.
    Luong et al. 2015. With W = I it is the dot score; it runs on the dot kernels because W q is computed first.
    """

    def __init__(self, d_q: int | None = None, d_k: int | None = None, heads: int = 1, features: int | None = None):
        super().__init__()
        who = type(self).__name__
        heads = whole(heads, who, "heads")
        d_q, d_k, features = sizes(who, d_q=d_q, d_k=d_k, features=features)
        self.features = features
        self.matrix: nn.Parameter | None = None
        if d_q is not None:
            shape = (heads, d_k or d_q, d_q) if features is None else (heads, features, d_k or d_q, d_q)
            self.matrix = nn.Parameter(torch.empty(shape))
            bound = 3**0.5 * max(1, d_q * (d_k or d_q)) ** -0.25
            nn.init.uniform_(self.matrix, -bound, bound)
        elif features is not None:
            raise ValueError(f"General(features={features}) has one matrix a feature: give d_q (and d_k) too.")

    def check(self, q: Tensor, k: Tensor) -> None:
        if self.matrix is None:
            check_alike(self, q, k)
        else:
            check_built(self, "q", q, self.matrix.shape[-1], self.matrix.shape[0])
            check_built(self, "k", k, self.matrix.shape[-2])

    def map_query(self, q: Tensor) -> Tensor:
        """W q: (..., H, n, d_k), or (..., H, F, n, d_k) with features."""
        if self.matrix is None:
            return q
        matrix = self.matrix.to(q.dtype).transpose(-1, -2)
        return (q if self.features is None else q.unsqueeze(-3)) @ matrix

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        k = k if self.features is None else k.unsqueeze(-3)
        return self.map_query(q) @ k.transpose(-1, -2)

    def shares_keys(self) -> bool:
        return True

    def lower(self, q: Tensor, k: Tensor) -> Lowered | None:
        if self.features is not None:
            return None
        return Lowered(DotCore(flat(self.map_query(q)), flat(k)))


class BiasedGeneral(General, name="biased_general", page="general"):
    """General, with a bias that favours some directions of the keys whatever the query.

        s_ij = k_j^T (W q_i + b)

    q (..., H, n, d_q), k (..., H, m, d_k)  ->  s (..., H, n, m);  b (H or 1, d_k) a vector

    Sordoni et al. 2016. With W = 0 every query gets the same weights: those of the learned query b.
    """

    def __init__(self, d_q: int | None = None, d_k: int | None = None, heads: int = 1):
        super().__init__(d_q, d_k, heads)
        self.bias = nn.Parameter(torch.zeros(heads, d_k or d_q)) if d_q is not None else None

    def shares_keys(self) -> bool:
        return True

    def map_query(self, q: Tensor) -> Tensor:
        mapped = super().map_query(q)
        return mapped if self.bias is None else mapped + self.bias.to(q.dtype)[..., None, :]


class ActivatedGeneral(General, name="activated_general", page="general"):
    """General, squashed: no pair can dominate by the length of its vectors.

        s_ij = act(k_j^T W q_i + b)

    q (..., H, n, d_q), k (..., H, m, d_k)  ->  s (..., H, n, m);  b (H or 1,) a scalar a head; act = tanh

    Ma et al. 2017 (IAN). With tanh no weight exceeds e^2 times another under softmax.
    """

    def __init__(self, d_q: int | None = None, d_k: int | None = None, heads: int = 1, activation: str = "tanh"):
        super().__init__(d_q, d_k, heads)
        self.squash = Activation(activation, bias=None if d_q is None else heads)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return self.squash.on(super().forward(q, k))

    def lower(self, q: Tensor, k: Tensor) -> Lowered | None:
        inner = super().lower(q, k)
        assert inner is not None  # General without features always lowers
        return Lowered(inner.core, modifiers=(self.squash,))
