"""The mask of a map as bits, so that a page can distinguish masked pairs from zero weights."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.core.maps.attention_map import BAND, AttentionMap


def allowed_pairs(group: Sequence[AttentionMap]) -> Tensor | None:
    """(1 or heads, n, m) bool, or None if nothing is masked; steps of a generation are concatenated."""
    m = max(amap.m for amap in group)
    parts = []
    for amap in group:
        step = max(1, BAND // max(1, amap.m * (amap.slab.stop - amap.slab.start)))
        for start in range(0, amap.n, step):
            keep = amap.allowed(slice(start, min(amap.n, start + step)), slice(0, amap.m)) > 0
            keep = keep[:1] if bool((keep == keep[:1]).all()) else keep
            parts.append(torch.nn.functional.pad(keep.cpu(), (0, m - amap.m)))
    heads = max((len(part) for part in parts), default=1)
    made = torch.cat([part.expand(heads, -1, -1) for part in parts], 1) if parts else torch.ones(1, 0, m).bool()
    return None if bool(made.all()) else made


def pack_bits(keep: Tensor) -> np.ndarray:
    """One bit for each pair, byte-aligned for each head: (heads, ceil(n m / 8)) uint8."""
    return np.packbits(keep.flatten(1).numpy(), axis=1)
