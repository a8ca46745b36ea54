"""The forget gate of the forgetting transformer: a data-dependent decay."""

import torch
from torch import Tensor

from ..lowering.score_kernels import Grads
from ..lowering.tiles import Tile
from ..structures import check_align, shift_of
from .modifier import Modifier, gathered_sum, spread


class ForgettingGate(Modifier):
    """A data-dependent decay: each step multiplies the weights of earlier keys by a gate.

        s'_ij = s_ij + sum_{l = j+1..i} log f_l = s_ij + F_i - F_j,   F = cumulative sum of log f

    Also known as: forget gate, FoX, forgetting transformer, data-dependent ALiBi.
    log_f (..., H or 1, m), at most 0: the log sigmoid of a projection. Lin et al. 2025. Under softmax exp(s) is
    multiplied by the gates between key and query. For shift-invariant alignments -F_j is enough, a bias for each
    key, which is how kernels run it; others are refused. With log f = -slope everywhere
    it is ALiBi over a causal structure.
    """

    kept = ("total", "align")
    closed = True
    shifts = True
    multiplies = True

    def __init__(self, log_f: Tensor, align: str | None = None):
        super().__init__()
        check_align(align, "ForgettingGate")
        if not isinstance(log_f, Tensor) or not log_f.is_floating_point() or not 1 <= log_f.ndim <= 3:
            given = f"{log_f.dtype} {tuple(log_f.shape)}" if isinstance(log_f, Tensor) else type(log_f).__name__
            raise ValueError(
                f"ForgettingGate(log_f) is {given}, expected a floating-point tensor (batch, heads, m): "
                "torch.nn.functional.logsigmoid(gate(x)) of each key."
            )
        low = log_f.dtype in (torch.float16, torch.bfloat16)
        total = (log_f.float() if low else log_f).cumsum(-1)
        self.total = total.reshape((1,) * (3 - total.ndim) + tuple(total.shape))
        self.align = align

    def check(self, heads: int) -> None:
        if self.total.shape[1] not in (1, heads):
            raise ValueError(
                f"ForgettingGate(log_f) has gates for {self.total.shape[1]} heads, but queries have {heads}."
            )

    def key_bias(self, batch: int, heads: int, m: int) -> Tensor | None:
        self._check_keys(m)
        if self.total.shape[0] not in (1, batch):
            return None
        return -self.total.expand(batch, heads, m).reshape(batch * heads, m)

    def _check_keys(self, m: int) -> None:
        if self.total.shape[2] != m:
            raise ValueError(
                f"ForgettingGate(log_f) has {self.total.shape[2]} gates a head, but there are {m} keys: "
                "expected one for each."
            )

    def _places(self, tile: Tile) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Indices into total of the queries' and the keys' sums: item, head, query, key."""
        self._check_keys(tile.m)
        batch, heads, m = self.total.shape
        query = (tile.query + shift_of(self.align, tile.n, tile.m, "ForgettingGate")).clamp(0, max(0, m - 1))
        item = tile.batch if batch > 1 else torch.zeros_like(tile.batch)
        return item, tile.head if heads > 1 else torch.zeros_like(tile.head), query, tile.key

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        item, head, query, key = self._places(tile)
        total = self.total.to(s.dtype)
        if tile.m == 0:
            return s
        return s + spread(total[item, head, query] - total[item, head, key], s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        item, head, query, key = self._places(tile)
        pairs, total = gathered_sum(ds), grads.of(self.total)
        if tile.m:
            for places, value in (
                (query, pairs.sum(2, keepdim=True)),
                (key, -pairs if key.shape[1] > 1 else -pairs.sum(1, keepdim=True)),
            ):
                index = torch.broadcast_tensors(item, head, places, value)[:3]
                total.index_put_(tuple(index), value.to(total.dtype), accumulate=True)
        return ds
