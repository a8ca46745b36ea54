"""What it costs to keep queries and keys in fewer bits: measured when they are kept, while both are there."""

import torch
from torch import Tensor

from regard.core.lowering import blockwise
from regard.core.lowering.blocks import dense_block
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.lazy import LazyMap

from ..capture.calls import Call
from ..capture.topk_map import TopKMap

ROWS = 16  # of each map, evenly spaced


class Casting:
    """The largest difference |w_ij - w'_ij| by site, over `ROWS` rows of every item and head."""

    rows = ROWS

    def __init__(self, dtype: torch.dtype):
        self.dtype = str(dtype).removeprefix("torch.")
        self.error: dict[str, float] = {}

    def measure(self, site: str, exact: "Call | AttentionMap", kept: AttentionMap) -> None:
        amap = exact if isinstance(exact, AttentionMap) else exact.map()
        if amap.n == 0 or amap.m == 0:
            return
        rows = torch.linspace(0, amap.n - 1, min(ROWS, amap.n)).round().long()
        a = some_rows(amap, rows)
        if isinstance(kept, TopKMap):  # what it let go is not the error of a type
            key, b = (x[..., rows.to(x.device), :] for x in (kept.key.long(), kept.weight))
            a = a.to(key.device).gather(-1, key.clamp_min(0)).masked_fill(key < 0, 0.0)
        else:
            b = some_rows(kept, rows)
        self.error[site] = float((a.to(b.device, torch.float64) - b.double()).abs().max())

    @property
    def largest(self) -> float:
        return max(self.error.values(), default=0.0)


@torch.no_grad()
def some_rows(amap: AttentionMap, rows: Tensor) -> Tensor:
    """(g, r, m): the weights of some rows, without the row state of all the others."""
    if not isinstance(amap, LazyMap) or amap.graph is not None or amap._state is not None:
        return amap.band(rows, slice(0, amap.m))
    problem = amap.problem
    block = dense_block(problem, amap.slab, rows.to(problem.device), slice(0, amap.m))
    s = blockwise.scores(problem, block)
    peak = blockwise.peak_of(problem, block, s) if problem.align.shift_invariant else torch.zeros_like(s[..., 0])
    s = s - peak[..., None]
    return blockwise.weights(problem, block, s, blockwise.row_state(problem, block, s, peak))
