"""Local attention (Luong et al. 2015): a window that moves with the query, or that the query places."""

import torch
from torch import Tensor, nn

from ..arguments import sizes, whole
from ..errors import check_built
from ..lowering.kernel_forms import EXPONENTIAL, AlignmentForm
from ..lowering.serialization import Spec
from ..lowering.tiles import Tile
from ..structures import PredictedWindow, Structure, Window
from .soft import Softmax


class Factor(Spec):
    """A known factor g of the weights, a function of the pair: w_ij = g_ij f(s_ij - tau_i)."""


class Bell(Factor):
    """g_ij = exp(-(j - centre_i)^2 / (2 width^2)); centre (g, n) keeps its gradient."""

    kept = ("centre", "width", "heads")

    def __init__(self, centre: Tensor, width: float, heads: int):
        self.centre, self.width, self.heads = centre, width, heads

    def _away(self, tile: Tile) -> Tensor:
        return tile.key - self.centre[tile.batch * self.heads + tile.head, tile.query]

    def of(self, tile: Tile) -> Tensor:
        return torch.exp(-self._away(tile).square() / (2 * self.width**2))

    def centre_gradient(self, tile: Tile, factor: Tensor, dfactor: Tensor) -> Tensor:
        """(g, r), from the gradient of the factor (g, r, c)."""
        return (dfactor * factor * self._away(tile)).sum(-1) / self.width**2


class Local(Softmax, name="local"):
    """Local monotonic attention: softmax within `window` positions of the query's own.

        w_ij = softmax over |j - i| <= window

    Also known as: local-m, local monotonic attention.
    Query i stands at key i. With window >= m it is softmax; a query beyond the last key by more than the window has
    an empty row. Luong et al. 2015 (local-m).
    """

    def __init__(self, window: int = 10):
        super().__init__()
        self.window = whole(window, "Local", "window", 0)

    def kernel_form(self) -> AlignmentForm:
        return AlignmentForm("local", EXPONENTIAL)

    def focus(self, q: Tensor, over: Structure, m: int) -> tuple[Structure, Bell | None]:
        """The structure narrowed, and the factor if there is one."""
        return over & Window(self.window, self.window, align="start"), None


class LocalPredictive(Softmax, name="local_predictive", page="local"):
    """Local predictive attention: the query says where to look, and a bell about that place fades the weights.

        p_i = (S - 1) sigmoid(v . tanh(W q_i)),   S = number of valid keys
        w_ij = softmax over |j - floor(p_i)| <= window  times  exp(-(j - p_i)^2 / (2 (window / 2)^2))

    Also known as: local-p.
    q (..., H, n, d_q); W (H or 1, width, d_q), v (H or 1, width); without sizes W = I, v = 1 / sqrt(d).
    Not renormalised: rows sum to less than one. W and v learn through the bell alone, since a window's border has no
    gradient. Luong et al. 2015 (local-p).
    """

    simplex = False

    def __init__(self, window: int = 10, d_q: int | None = None, width: int | None = None, heads: int = 1):
        super().__init__()
        self.window = whole(window, "LocalPredictive", "window")  # the bell is half of it wide
        heads = whole(heads, "LocalPredictive", "heads")
        d_q, width = sizes("LocalPredictive", d_q=d_q, width=width)
        self.matrix = None if d_q is None else nn.Parameter(torch.empty(heads, width or d_q, d_q))
        self.v = None if d_q is None else nn.Parameter(torch.empty(heads, width or d_q))
        for part in (self.matrix, self.v):
            if part is not None:
                nn.init.uniform_(part, -(part.shape[-1] ** -0.5), part.shape[-1] ** -0.5)

    def check(self, q: Tensor, k: Tensor) -> None:
        if self.matrix is not None:
            check_built(self, "q", q, self.matrix.shape[-1], self.matrix.shape[0])

    def kernel_form(self) -> AlignmentForm:
        return AlignmentForm("predicted windows", EXPONENTIAL)

    def centre(self, q: Tensor, lengths: Tensor) -> Tensor:
        """p (B, H, n) in fp32 or better, for q (B, H, n, d_q) and the valid keys of each item, (B,)."""
        q = q if q.dtype == torch.float64 else q.float()
        if self.matrix is None or self.v is None:
            logit = torch.tanh(q).sum(-1) * max(1, q.shape[-1]) ** -0.5
        else:
            hidden = torch.tanh(q @ self.matrix.to(q.dtype).transpose(-1, -2))
            logit = (hidden * self.v.to(q.dtype)[:, None]).sum(-1)
        return (lengths - 1).clamp_min(0)[:, None, None] * torch.sigmoid(logit)

    def focus(self, q: Tensor, over: Structure, m: int) -> tuple[Structure, Bell | None]:
        lengths = over.lengths_of_keys(m)
        if lengths is None:
            lengths = torch.full((q.shape[0],), m, device=q.device)
        centre = self.centre(q, lengths).flatten(0, 1)
        heads = q.shape[1]
        return over & PredictedWindow(centre.detach(), self.window, heads), Bell(centre, self.window / 2, heads)
