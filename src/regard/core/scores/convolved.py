"""Multi-token attention: scores of near queries and near keys are convolved."""

import torch
from torch import Tensor, nn

from ..arguments import whole
from ..errors import check_heads
from ..lowering.row_cores import ConvolvedCore, convolved, margins
from ..structures import check_align, shift_of
from .score import Lowered, Score, flat, per_head


class ConvolvedDot(Score, name="multi_token", free=False):
    """A score is a weighted sum of the scores of near queries and near keys, so that several tokens match together.

        s_ij = sum_{x, y} c_xy q_{i-x} . k_{j-y} / sqrt(d),   0 <= x < query,  -key / 2 < y <= key / 2,  j - y <= i - x

    q (..., H, n, d), k (..., H, m, d)  ->  s (..., H, n, m);  c (H or 1, query, key)

    Also known as: multi-token attention, MTA, key-query convolution, convolved scores.
    heads        heads with a kernel of their own
    query, key   the size of the kernel: 6 and 11 in the paper
    align        where queries stand among the keys: "end", the last query at the last key, or "start"

    Golovneva et al. 2025, over=Causal(): pairs that look ahead count 0. The kernel starts as 1 at the pair itself,
    where it is the scaled dot product. Keys beside a pair count where the structure closes them, too: padding
    belongs after the text. Decoding needs the queries before, which `nn.MultiTokenAttention` keeps.
    """

    one_width = True
    positional = True
    ordered = True
    looks_back = True

    def __init__(self, heads: int = 1, query: int = 6, key: int = 11, align: str = "end"):
        super().__init__()
        given = {"heads": heads, "query": query, "key": key}
        heads, query, key = (whole(x, "ConvolvedDot", name) for name, x in given.items())
        check_align(align, "ConvolvedDot")
        self.kernel = nn.Parameter(torch.zeros(heads, query, key))
        with torch.no_grad():
            self.kernel[:, 0, -margins(self.kernel)[0]] = 1.0
        self.align = align

    def check(self, q: Tensor, k: Tensor) -> None:
        super().check(q, k)
        check_heads(self, self.kernel.shape[0], q.shape[1])

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        n, m = q.shape[-2], k.shape[-2]
        i, j = (torch.arange(size, device=q.device) for size in (n, m))
        pairs = q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2)
        pairs = pairs.masked_fill(j > i[:, None] + shift_of(self.align, n, m, "ConvolvedDot"), 0.0)
        return convolved(pairs, self.kernel.to(q.dtype), i, j)

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        shift = shift_of(self.align, q.shape[-2], k.shape[-2], "ConvolvedDot")
        core = ConvolvedCore(flat(q), flat(k), per_head(self.kernel.to(q.dtype), q), q.shape[-1] ** -0.5, shift)
        return Lowered(core)  # type: ignore[arg-type] # a core that kernels have no form for
