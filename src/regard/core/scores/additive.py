"""Additive scores: a small perceptron looks at each pair."""

import torch
from torch import Tensor, nn

from ..activations import apply_activation, check_activation
from ..arguments import flag, number, sizes, whole
from ..errors import check_built
from ..lowering.score_kernels import PairCore
from .score import Lowered, Score, check_alike, flat, per_head


class Additive(Score, name=("additive", "concat")):
    """A one-hidden-layer perceptron looks at each pair.

        s_ij = v . act(W_q q_i + W_k k_j + b)           features=F: v becomes a matrix (w, F), one score a feature

    q (..., H, n, d_q), k (..., H, m, d_k)  ->  s (..., H, n, m) or (..., H, F, n, m)
    W_q (H or 1, w, d_q), W_k (H or 1, w, d_k), b (H or 1, w), v (H or 1, w) or (H or 1, w, F)

    Also known as: Bahdanau attention, Luong's concat, MLP attention.
    Bahdanau et al. 2015; Luong's concat is the same function with [W_q | W_k] in one matrix (`from_concat`).
    With an identity activation the query cancels in the softmax: every row gets the same weights.
    Without sizes: W_q = W_k = I, b = 0, v = 1 / sqrt(d); features=True then makes each hidden unit its own score.
    """

    def __init__(
        self,
        d_q: int | None = None,
        d_k: int | None = None,
        width: int | None = None,
        heads: int = 1,
        activation: str = "tanh",
        slope: float = 0.2,
        bias: bool = True,
        features: int | bool | None = None,
    ):
        super().__init__()
        who = type(self).__name__
        check_activation(activation)
        self.activation, self.slope = activation, number(slope, who, "slope")
        heads, bias = whole(heads, who, "heads"), flag(bias, who, "bias")
        d_q, d_k, width = sizes(who, d_q=d_q, d_k=d_k, width=width)
        if features is not None and not isinstance(features, bool):
            features = whole(features, who, "features")
        self.sized = d_q is not None
        self.by_unit = features is True
        self.features = None if isinstance(features, bool) else features  # 1 == True, so ask for the type
        if d_q is None:
            if self.features is not None:
                raise ValueError(
                    f"Additive(features={features}) needs sizes for its matrix v: give d_q (and width). "
                    "Additive(features=True) makes each hidden unit its own score."
                )
            return
        d_k, width = d_k or d_q, width or d_q
        self.query = nn.Parameter(torch.empty(heads, width, d_q))
        self.key = nn.Parameter(torch.empty(heads, width, d_k))
        self.bias = nn.Parameter(torch.zeros(heads, width)) if bias else None
        self.v: Tensor | None = None
        if not self.by_unit:
            self.v = nn.Parameter(
                torch.empty((heads, width) if self.features is None else (heads, width, self.features))
            )
            nn.init.uniform_(self.v, -(width**-0.5), width**-0.5)
        for matrix, size in ((self.query, d_q), (self.key, d_k)):
            nn.init.uniform_(matrix, -(size**-0.5), size**-0.5)

    @classmethod
    def from_concat(
        cls, matrix: Tensor, v: Tensor, d_q: int, bias: Tensor | None = None, **options: object
    ) -> "Additive":
        """Luong's concat form v . act(W [q; k] + b), W (w, d_q + d_k)."""
        made = cls(d_q, matrix.shape[1] - d_q, matrix.shape[0], bias=bias is not None, **options)  # type: ignore[arg-type]
        made.to(matrix.device, matrix.dtype)
        with torch.no_grad():
            made.query.copy_(matrix[:, :d_q])
            made.key.copy_(matrix[:, d_q:])
            if made.v is not None:
                made.v.copy_(v)
            if bias is not None and made.bias is not None:
                made.bias.copy_(bias)
        return made

    def check(self, q: Tensor, k: Tensor) -> None:
        if self.sized:
            check_built(self, "q", q, self.query.shape[-1], self.query.shape[0])
            check_built(self, "k", k, self.key.shape[-1])
        else:
            check_alike(self, q, k)

    def feature_count(self, q: Tensor) -> int | None:
        if not self.by_unit:
            return self.features
        return self.query.shape[1] if self.sized else q.shape[-1]

    def project(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """(..., H, n, w) and (..., H, m, w); the bias goes with the query."""
        if not self.sized:
            return q, k
        a = q @ self.query.to(q.dtype).transpose(-1, -2)
        if self.bias is not None:
            a = a + self.bias.to(q.dtype)[:, None, :]
        return a, k @ self.key.to(k.dtype).transpose(-1, -2)

    def readout(self, q: Tensor) -> Tensor | None:
        """v as (H or 1, w) or (H or 1, w, F); None where each hidden unit is a feature."""
        if self.by_unit:
            return None
        if not self.sized:
            return torch.full((1, q.shape[-1]), max(1, q.shape[-1]) ** -0.5, dtype=q.dtype, device=q.device)
        assert self.v is not None
        return self.v.to(q.dtype)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        a, b = self.project(q, k)
        hidden = apply_activation((a.unsqueeze(-2) + b.unsqueeze(-3)), self.activation, self.slope)  # (..., H, n, m, w)
        v = self.readout(a)
        if v is None:
            return hidden.movedim(-1, -3)
        if v.ndim == 2:
            return (hidden * v[:, None, None, :]).sum(-1)
        return (hidden @ v[:, None]).movedim(-1, -3)

    def edge_part(self, key: Tensor, join: str) -> Tensor | None:
        if not self.sized:
            return key
        return key @ self.key.to(key.dtype).transpose(-1, -2) if join == "add" else None

    def shares_keys(self) -> bool:
        return not self.sized or self.key.shape[0] == 1

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        a, b = self.project(q, k)
        v = self.readout(a)
        return Lowered(PairCore(flat(a), flat(b), None if v is None else per_head(v, q), self.activation, self.slope))


class GATv2(Additive, name="gatv2", page="graph_scores"):
    """Graph attention whose ranking of neighbours depends on who asks.

        s_ij = a . LeakyReLU(q_i + k_j)                 q_i = W_l h_i, k_j = W_r h_j, projected by the caller

    q (..., H, n, d), k (..., H, m, d)  ->  s (..., H, n, m);  a (H or 1, d), without sizes 1 / sqrt(d)

    Also known as: dynamic graph attention.
    Brody et al. 2022: additive attention with LeakyReLU. Two queries may rank the same keys differently.
    """

    one_width = True

    def __init__(self, d: int | None = None, heads: int = 1, slope: float = 0.2):
        super().__init__(activation="leaky_relu", slope=slope)
        heads, (d,) = whole(heads, "GATv2", "heads"), sizes("GATv2", d=d)
        self.v = None if d is None else nn.Parameter(torch.empty(heads, d))
        if self.v is not None:
            nn.init.xavier_uniform_(self.v)

    def check(self, q: Tensor, k: Tensor) -> None:
        check_alike(self, q, k)
        if self.v is not None:
            check_built(self, "q", q, self.v.shape[-1], self.v.shape[0])

    def shares_keys(self) -> bool:
        return True

    def keeps_keys(self) -> bool:
        return True

    def readout(self, q: Tensor) -> Tensor | None:
        return super().readout(q) if self.v is None else self.v.to(q.dtype)


class GAT(Score, name="gat", page="graph_scores"):
    """Graph attention: a target part plus a source part, bent by LeakyReLU.

        s_ij = LeakyReLU(a_d . q_i + a_s . k_j)         q_i = W h_i, k_j = W h_j, projected by the caller

    q (..., H, n, d), k (..., H, m, d)  ->  s (..., H, n, m);  a_d, a_s (H or 1, d), without sizes 1 / sqrt(d)

    Velickovic et al. 2018. Static: all queries rank the keys alike, because LeakyReLU is monotonic.
    """

    def __init__(self, d: int | None = None, heads: int = 1, slope: float = 0.2):
        super().__init__()
        heads, (d,) = whole(heads, "GAT", "heads"), sizes("GAT", d=d)
        self.slope = number(slope, "GAT", "slope")
        self.target = None if d is None else nn.Parameter(torch.empty(heads, d))
        self.source = None if d is None else nn.Parameter(torch.empty(heads, d))
        for part in (self.target, self.source):
            if part is not None:
                nn.init.xavier_uniform_(part)

    def check(self, q: Tensor, k: Tensor) -> None:
        if self.target is not None and self.source is not None:
            check_built(self, "q", q, self.target.shape[-1], self.target.shape[0])
            check_built(self, "k", k, self.source.shape[-1])

    def parts(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """(..., H, n, 1) and (..., H, m, 1)."""
        if self.target is None or self.source is None:
            if q.shape[-1] == k.shape[-1] == 1:  # read off by the caller already
                return q, k
            return q.sum(-1, keepdim=True) * q.shape[-1] ** -0.5, k.sum(-1, keepdim=True) * k.shape[-1] ** -0.5
        target, source = self.target.to(q.dtype), self.source.to(k.dtype)
        return q @ target[..., None], k @ source[..., None]

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        a, b = self.parts(q, k)
        return torch.nn.functional.leaky_relu(a + b.transpose(-1, -2), self.slope)

    def edge_part(self, key: Tensor, join: str) -> Tensor | None:
        if join == "mul" and (self.source is not None or key.shape[-1] != 1):
            return None
        return self.parts(key, key)[1]

    def shares_keys(self) -> bool:
        return self.source is None or self.source.shape[0] == 1

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        a, b = self.parts(q, k)
        return Lowered(PairCore(flat(a), flat(b), 1.0, "leaky_relu", self.slope))
