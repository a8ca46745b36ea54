"""Additive tanh beside torch.compile of its formula."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from regard.core.scores import Additive

from ..measure import BenchResult
from .harness import BOTH, FORWARD, Bar, BenchSetting, PeerPair

SIZES = ((8, 1, 512), (4, 8, 1024), (1, 8, 4096))  # batch, heads, tokens


def additive(
    setting: BenchSetting, sizes: Sequence[tuple[int, int, int]] = SIZES, d: int = 64
) -> Iterator[BenchResult]:
    """additive tanh beside torch.compile of its formula"""
    smallest, largest = sizes[0], sizes[-1]
    for size in sizes:
        for dtype in (torch.float32, torch.bfloat16) if size == largest else (torch.float32,):
            pair = _pair(setting, size, d, dtype)
            most = {torch.float32: 2.6, torch.bfloat16: 2.2}[dtype] if size == largest else None
            small = size == smallest
            yield pair.measured(FORWARD, Bar(times=1, ms=most), graph=small)
            bar = Bar(times=1) if small else Bar(1 / 8, 11, 600) if size == largest else Bar(1 / 8)
            yield pair.measured(BOTH, bar, memory=True, graph=small)


def _pair(setting: BenchSetting, size: tuple[int, int, int], d: int, dtype: torch.dtype) -> PeerPair:
    batch, heads, n = size
    q, k, v = setting.made(*[(batch, heads, n, d)] * 3, dtype=dtype)
    score = Additive(d, d, d, heads=heads).to(setting.device, dtype)

    def formula(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(score(q, k).float(), -1).to(v.dtype) @ v

    compiled = setting.compiled(formula)
    name = f"additive ({batch}, {heads}, {n}, {d}) {str(dtype).removeprefix('torch.')}"
    return PeerPair(
        setting,
        name,
        lambda: setting.attend(q, k, v, score),
        lambda: compiled(q, k, v),
        "torch.compile",
        (q, k, v, score),
        [q, k, v, *score.parameters()],
    )
