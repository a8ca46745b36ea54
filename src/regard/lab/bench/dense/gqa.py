"""Heads of queries that share keys, beside the same with keys repeated."""

from collections.abc import Iterator

from torch import Tensor

from regard.core.structures import Causal

from ..measure import BenchResult
from .harness import BOTH, Bar, BenchSetting, PeerPair


def shared(
    setting: BenchSetting, n: int = 4096, heads: int = 32, group: int = 4, d: int = 128
) -> Iterator[BenchResult]:
    """32 heads of queries on 8 of keys, beside the same with keys repeated"""
    q, k, v = setting.made((1, heads, n, d), *[(1, heads // group, n, d)] * 2)
    for align in ("softmax", "entmax15"):
        yield _pair(setting, q, k, v, align).measured(BOTH, Bar(times=1), memory=True)


def _pair(setting: BenchSetting, q: Tensor, k: Tensor, v: Tensor, align: str) -> PeerPair:
    heads, apart = q.shape[1], k.shape[1]
    call = (q, k, v, "scaled_dot", align, Causal())

    def peer() -> Tensor:
        keys, values = (x.repeat_interleave(heads // apart, 1) for x in (k, v))
        return setting.attend(q, keys, values, "scaled_dot", align, Causal())

    return PeerPair(
        setting,
        f"{align}, causal, {heads} heads on {apart} {tuple(q.shape)} bfloat16",
        lambda: setting.attend(*call),
        peer,
        "repeated keys",
        call,
        [q, k, v],
    )
