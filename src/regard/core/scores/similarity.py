"""Scores from likeness: cosine, distances, content with sharpness, trilinear, and a kernel in linear time."""

import math
from collections.abc import Hashable
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..arguments import SMALLEST, flag, number, sizes, whole
from ..errors import check_built, check_heads
from ..lowering.score_kernels import DotCore, PairCore
from ..modifiers.pointwise import Activation
from ..torch_private import apply_function
from .score import Lowered, Score, flat, wide


def _unit(x: Tensor, eps: float) -> Tensor:
    norm = wide(x).norm(dim=-1, keepdim=True).clamp_min(eps)
    return (wide(x) / norm).to(x.dtype)


class _Squared(torch.autograd.Function):
    """factor |x|^2 of 16 bits: one pass over x, and two for its gradient; a copy in fp32 would take three and five."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, factor: float) -> Tensor:
        return torch.linalg.vector_norm(x, dim=-1, dtype=torch.float32).square().mul(factor)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        x, ctx.factor = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return (x * (2 * ctx.factor * grad).unsqueeze(-1)).to(x.dtype), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * ctx.factor * (wide(x) * tangent).sum(-1)


def squared(x: Tensor, factor: float) -> Tensor:
    """factor |x|^2 of each vector, in fp32 or better."""
    if x.dtype.itemsize > 2 or torch.compiler.is_compiling():  # which joins these by itself, and knows no jvp
        return wide(x).square().sum(-1) * factor
    found: Tensor = apply_function(_Squared, x, factor)
    return found


def _before_softplus(x: float) -> float:
    """softplus(y) = x, also for x so large that exp(x) overflows."""
    return x + math.log(-math.expm1(-x))


class Cosine(Score, name="cosine", page="similarity"):
    """Direction alone counts, not length.

        s_ij = sharpness * q_i . k_j / (|q_i| |k_j|)

    q (..., H, n, d), k (..., H, m, d)  ->  s (..., H, n, m)

    Also known as: QK-norm, query-key normalisation, cosine similarity.
    Graves et al. 2014. Rescaling a key by a positive factor changes nothing; norms are taken in fp32.
    """

    one_width = True

    def __init__(self, sharpness: float = 1.0, eps: float = 1e-8):
        super().__init__()
        self.sharpness, self.eps = number(sharpness, "Cosine", "sharpness"), number(eps, "Cosine", "eps", SMALLEST)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return self.sharpness * (_unit(q, self.eps) @ _unit(k, self.eps).transpose(-1, -2))

    def shares_keys(self) -> bool:
        return True

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        return Lowered(DotCore(flat(_unit(q, self.eps)), flat(_unit(k, self.eps)), self.sharpness))


class Content(Score, name="content", page="similarity"):
    """Content-based addressing: the query also says how sharply it looks.

        s_ij = beta_i cos(q_i, k_j),   beta_i = softplus(w . q_i + b)          without sizes: beta = sharpness

    q (..., H, n, d_q), k (..., H, m, d_q)  ->  s (..., H, n, m);  w (H or 1, d_q), b (H or 1,)

    Also known as: content-based addressing, neural Turing machine.
    Graves et al. 2014 (neural Turing machine). beta = 0 gives uniform weights, a large beta the nearest key.
    """

    one_width = True

    def __init__(self, d_q: int | None = None, heads: int = 1, sharpness: float = 1.0, eps: float = 1e-8):
        super().__init__()
        heads, (d_q,) = whole(heads, "Content", "heads"), sizes("Content", d_q=d_q)
        sharpness = number(sharpness, "Content", "sharpness", 0)
        if d_q is not None and sharpness < SMALLEST:
            raise ValueError(
                f"Content(sharpness={sharpness}): expected more than 0 with d_q, where it is the start of "
                "a learned sharpness."
            )
        self.sharpness, self.eps = sharpness, number(eps, "Content", "eps", SMALLEST)
        self.weight = None if d_q is None else nn.Parameter(torch.zeros(heads, d_q))
        self.bias = None if d_q is None else nn.Parameter(torch.full((heads,), _before_softplus(sharpness)))

    def check(self, q: Tensor, k: Tensor) -> None:
        super().check(q, k)
        if self.weight is not None:
            check_built(self, "q", q, self.weight.shape[-1], self.weight.shape[0])

    def _sharp(self, q: Tensor) -> Tensor:
        """beta_i q_i / |q_i|."""
        if self.weight is None or self.bias is None:
            return _unit(q, self.eps) * self.sharpness
        beta = F.softplus((q * self.weight.to(q.dtype)[:, None]).sum(-1) + self.bias.to(q.dtype)[:, None])
        return _unit(q, self.eps) * beta[..., None]

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return self._sharp(q) @ _unit(k, self.eps).transpose(-1, -2)

    def shares_keys(self) -> bool:
        return True

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        return Lowered(DotCore(flat(self._sharp(q)), flat(_unit(k, self.eps))))


class Gaussian(Score, name="gaussian", page="similarity"):
    """Near is alike: the logarithm of a Gaussian kernel (Nadaraya 1964, Watson 1964).

        s_ij = -|q_i - k_j|^2 / (2 width^2)             features=True: s_ijd = -(q_id - k_jd)^2 / (2 width^2)

    Also known as: RBF kernel, Nadaraya-Watson, kernel regression.

    q (..., H, n, d), k (..., H, m, d)  ->  s (..., H, n, m);  width fixed, or learned (H or 1,) through softplus

    Moving queries and keys together changes nothing; with keys of equal norm it is softmax of the dot score.
    Runs on the dot kernels: |q|^2 drops, |k|^2 becomes a bias of the key, kept in fp32.
    """

    one_width = True

    def __init__(self, width: float = 1.0, learned: bool = False, heads: int = 1, features: bool = False):
        super().__init__()
        width = number(width, "Gaussian", "width", SMALLEST**0.5)  # its square divides
        heads, learned = whole(heads, "Gaussian", "heads"), flag(learned, "Gaussian", "learned")
        self.by_feature = flag(features, "Gaussian", "features")
        self.fixed = width
        self.raw = nn.Parameter(torch.full((heads,), _before_softplus(width))) if learned else None

    def plan_key(self) -> Hashable | None:
        constant = self.raw is None and not self.by_feature and not isinstance(self.fixed, Tensor)
        return (Gaussian, self.fixed) if constant else None

    @classmethod
    def built_for(cls, d_q: int, d_k: int, heads: int = 1) -> Self:
        """Its width is learned, and starts so that scores of unit-variance vectors vary as those of scaled dot."""
        return cls(width=d_k**0.25, learned=True, heads=heads)

    @classmethod
    def built_by_feature(cls, d_q: int, d_k: int) -> Self:
        return cls(learned=True, features=True)

    def check(self, q: Tensor, k: Tensor) -> None:
        super().check(q, k)
        if self.raw is not None:
            check_heads(self, self.raw.shape[0], q.shape[1])

    def feature_count(self, q: Tensor) -> int | None:
        return q.shape[-1] if self.by_feature else None

    def _scaled(self, x: Tensor) -> Tensor:
        """x / width."""
        if self.raw is None:
            return x / self.fixed if self.fixed != 1.0 else x
        return (wide(x) / F.softplus(wide(self.raw))[:, None, None]).to(x.dtype)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        difference = self._scaled(q).unsqueeze(-2) - self._scaled(k).unsqueeze(-3)  # (..., H, n, m, d)
        half = -0.5 * difference.square()
        return half.movedim(-1, -3) if self.by_feature else half.sum(-1)

    def shares_keys(self) -> bool:
        return self.raw is None or self.raw.shape[0] == 1

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        scale = self._scale(q)
        a, b = (q, k) if scale != 1.0 else (self._scaled(q), self._scaled(k))
        if self.by_feature:
            return Lowered(PairCore(flat(a), -flat(b), None, "negative_half_square"))
        return Lowered(DotCore(flat(a), flat(b), scale), squared(b, -0.5 * scale).flatten(0, 1))

    def _scale(self, q: Tensor) -> float:
        """Of the dot product and the squares, where vectors are left as they are: not divided, and not rounded again.

        In fp16 they are divided first: squares of what was given could be too large for it.
        """
        plain = self.raw is None and not self.by_feature and q.dtype != torch.float16
        return self.fixed**-2 if plain else 1.0

    def row_bias(self, q: Tensor) -> Tensor | None:
        scale = self._scale(q)
        a = q if scale != 1.0 else self._scaled(q)
        return None if self.by_feature else squared(a, -0.5 * scale)


class Laplace(Score, name="laplace", page="similarity"):
    """Near is alike, counted along the axes: the logarithm of a Laplace kernel.

        s_ij = -sum_d |q_id - k_jd| / width             features=True: one score a dimension, no sum

    Also known as: L1 distance, Laplacian kernel.

    q (..., H, n, d), k (..., H, m, d)  ->  s (..., H, n, m)

    Moving queries and keys together changes nothing. A far dimension costs its distance, not its square.
    """

    one_width = True

    def __init__(self, width: float = 1.0, features: bool = False):
        super().__init__()
        self.by_feature = flag(features, "Laplace", "features")
        self.width = number(width, "Laplace", "width", SMALLEST)

    @classmethod
    def built_for(cls, d_q: int, d_k: int, heads: int = 1) -> Self:
        """As wide as keeps scores of unit-variance vectors varying as those of scaled dot."""
        return cls(width=d_k**0.5)

    def feature_count(self, q: Tensor) -> int | None:
        return q.shape[-1] if self.by_feature else None

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        far = -((q / self.width).unsqueeze(-2) - (k / self.width).unsqueeze(-3)).abs()
        return far.movedim(-1, -3) if self.by_feature else far.sum(-1)

    def shares_keys(self) -> bool:
        return True

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        a, b = flat(q) / self.width, -flat(k) / self.width
        if self.by_feature:
            return Lowered(PairCore(a, b, None, "negative_abs"))
        return Lowered(PairCore(a, b, 1.0, "negative_abs"))


class Trilinear(Score, name="trilinear", page="general"):
    """Query, key and their product, weighed together.

        s_ij = u . q_i + v . k_j + w . (q_i * k_j)

    q (..., H, n, d), k (..., H, m, d)  ->  s (..., H, n, m);  u, v, w (H or 1, d), without sizes 1 / sqrt(d)

    Seo et al. 2017 (BiDAF). Under softmax the weights do not depend on u. Runs on the dot kernels with a key bias.
    """

    one_width = True

    def __init__(self, d: int | None = None, heads: int = 1):
        super().__init__()
        heads, (d,) = whole(heads, "Trilinear", "heads"), sizes("Trilinear", d=d)
        self.weights = None if d is None else nn.Parameter(torch.empty(3, heads, d))
        if self.weights is not None:
            nn.init.uniform_(
                self.weights, -((3 * self.weights.shape[-1]) ** -0.5), (3 * self.weights.shape[-1]) ** -0.5
            )

    def check(self, q: Tensor, k: Tensor) -> None:
        super().check(q, k)
        if self.weights is not None:
            check_built(self, "q", q, self.weights.shape[-1], self.weights.shape[1])

    def _parts(self, q: Tensor) -> Tensor:
        if self.weights is None:
            return torch.full((3, 1, q.shape[-1]), q.shape[-1] ** -0.5, dtype=q.dtype, device=q.device)
        return self.weights.to(q.dtype)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        u, v, w = self._parts(q)[:, :, None]
        return (q * u).sum(-1)[..., :, None] + (k * v).sum(-1)[..., None, :] + (q * w) @ k.transpose(-1, -2)

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        _, v, w = self._parts(q)[:, :, None]
        return Lowered(DotCore(flat(q * w), flat(k)), (wide(k) * wide(v)).sum(-1).flatten(0, 1))

    def row_bias(self, q: Tensor) -> Tensor | None:
        return (wide(q) * wide(self._parts(q)[0, :, None])).sum(-1)


class LinearKernel(Score, name="linear_kernel"):
    """A kernel that factorises, so that attention costs O(n): the logarithm of phi(q) . phi(k), phi = elu + 1.

        s_ij = log(phi(q_i) . phi(k_j))                 under softmax: y_i = phi(q_i) (sum_j phi(k_j) v_j^T) / norm

    q (..., H, n, d), k (..., H, m, d)  ->  s (..., H, n, m)

    Also known as: linear attention, kernelised attention, linear transformer.
    Katharopoulos et al. 2020. The n x m form and the associative form (backend "linear") are equal.
    """

    one_width = True

    def feature_map(self, x: Tensor) -> Tensor:
        return F.elu(x) + 1

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        kernel = self.feature_map(q) @ self.feature_map(k).transpose(-1, -2)
        open_pair = kernel > 0  # phi underflows below about -17 in fp32; such a pair is closed, without a gradient
        return kernel.where(open_pair, 1.0).log().where(open_pair, float("-inf"))

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        a, b = self.feature_map(q), self.feature_map(k)
        return Lowered(DotCore(flat(a), flat(b)), modifiers=(Activation("log"),))
