"""Contextual positions: a position counts what matters to the query, not every token."""

import torch
from torch import Tensor, nn

from ..arguments import whole
from ..errors import check_built
from ..lowering.row_cores import ContextualCore, contextual
from ..structures import check_align, shift_of
from .score import Lowered, Score, flat, per_head


class CoPE(Score, name="cope", free=False, page="contextual"):
    """Positions that the query counts itself: a gate says of each key whether it is one more step away.

        s_ij = q_i . k_j / sqrt(d) + q_i . e[p_ij],   p_ij = sum_{l = j..i} sigmoid(q_i . k_l / sqrt(d))

    q (..., H, n, d), k (..., H, m, d)  ->  s (..., H, n, m);  e (H or 1, positions, d), read between its rows

    Also known as: contextual position encoding.
    d_k, heads   width of queries and keys, and heads with an e of their own
    positions    rows of e; farther keys share the last
    align        where queries stand among the keys: "end", the last query at the last key, or "start"

    Golovneva et al. 2024, over=Causal(): keys after the query stand at 0. e starts at 0, where it is the scaled dot
    product. A score depends on all keys between the pair, those that the structure closes too, so tiles are computed
    from whole rows of keys, padding belongs after the text, and edges have no such order.
    """

    one_width = True
    positional = True
    ordered = True

    def __init__(self, d_k: int, heads: int = 1, positions: int = 64, align: str = "end"):
        super().__init__()
        given = {"d_k": d_k, "heads": heads, "positions": positions}
        d_k, heads, positions = (whole(x, "CoPE", name) for name, x in given.items())
        check_align(align, "CoPE")
        self.positions = nn.Parameter(torch.zeros(heads, positions, d_k))
        self.align = align

    def check(self, q: Tensor, k: Tensor) -> None:
        super().check(q, k)
        check_built(self, "q", q, self.positions.shape[-1], self.positions.shape[0])

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        n, m = q.shape[-2], k.shape[-2]
        place = torch.arange(n, device=q.device) + shift_of(self.align, n, m, "CoPE")
        return contextual(q, k, self.positions, q.shape[-1] ** -0.5, place)

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        shift = shift_of(self.align, q.shape[-2], k.shape[-2], "CoPE")
        table = per_head(self.positions.to(q.dtype), q)
        core = ContextualCore(flat(q), flat(k), table, q.shape[-1] ** -0.5, shift)
        return Lowered(core)  # type: ignore[arg-type] # a core that kernels have no form for
