"""Thumbnails of maps: cells of several weights, each shown by the largest."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap

THUMB = 32  # maximum cells a side of a thumbnail
MAX_DENSE = 1 << 20  # up to so many weights a head, cells are pooled from weights, beyond from the pyramid


@dataclass(frozen=True)
class PooledHeads:
    """peak (heads, r, c): the weight of largest magnitude in each cell of tall x wide."""

    peak: NDArray[np.float32]
    tall: int
    wide: int

    @property
    def legend(self) -> str:
        """The legend of a cell."""
        return "weight" if self.tall == self.wide == 1 else f"largest weight of {self.tall} × {self.wide}"


def pool_heads(amap: AttentionMap, rows: int, columns: int) -> PooledHeads:
    """The heads of one item with at most rows x columns cells each; feature-wise weights by their mean."""
    if amap.n * amap.m <= MAX_DENSE:
        w = heads_of(amap.band(slice(0, amap.n), slice(0, amap.m)), amap).float().cpu()
        tall, wide = max(1, -(-amap.n // rows)), max(1, -(-amap.m // columns))
        return PooledHeads(pooled(w, tall, wide).numpy(), tall, wide)
    fits = [x for x in amap.pyramid().levels if x.peak.shape[-2] <= rows and x.peak.shape[-1] <= columns]
    level = fits[0] if fits else amap.pyramid().levels[-1]
    peak = level.peak.reshape(-1, *level.peak.shape[len(amap.lead) :])
    return PooledHeads(heads_of(peak, amap).float().cpu().numpy(), level.size, level.size)


def pooled(w: Tensor, tall: int, wide: int) -> Tensor:
    """(g, n, m) -> (g, r, c): the weight of largest magnitude in each cell; the last cells may be smaller."""
    if tall == wide == 1 or not w.numel():
        return w
    most, least = (torch.nn.functional.max_pool2d(x[:, None], (tall, wide), ceil_mode=True)[:, 0] for x in (w, -w))
    return torch.where(least > most.abs(), -least, most)


def heads_of(w: Tensor, amap: AttentionMap) -> Tensor:
    """(heads, r, c); feature-wise weights as their mean."""
    return w if amap.features is None else w.mean(1)
