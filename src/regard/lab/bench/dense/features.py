"""One weight a feature beside torch.compile of the formula."""

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.core.scores import Additive, Dot, Score, SoftCap

from ..measure import BenchResult
from .harness import BOTH, FORWARD, Bar, BenchSetting, PeerPair


def features(setting: BenchSetting, size: tuple[int, int, int] = (1, 2, 1024), d: int = 64) -> Iterator[BenchResult]:
    """weights for each feature beside torch.compile of their formula"""
    scores = {"DiSA": Additive(activation="identity", features=True) | SoftCap(5.0), "product": Dot(features=True)}
    for name, score in scores.items():
        pair = _pair(setting, name, score, (*size, d))
        yield pair.measured(FORWARD, Bar(times=1))
        yield pair.measured(BOTH, Bar(times=1), memory=True)


def _pair(setting: BenchSetting, name: str, score: Score, shape: tuple[int, ...]) -> PeerPair:
    q, k, v = setting.made(*[shape] * 3)

    def formula(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k = q.float()[..., None, :], k.float()[..., None, :, :]
        s = 5 * torch.tanh((q + k) / 5) if name == "DiSA" else q * k
        return (s.softmax(-2) * v[..., None, :, :]).sum(-2).to(v.dtype)

    compiled, backend = setting.compiled(formula), "triton-features"
    return PeerPair(
        setting,
        f"{name} by feature {shape} bfloat16",
        lambda: setting.attend(q, k, v, score, backend=backend),
        lambda: compiled(q, k, v),
        "torch.compile",
        (q, k, v, score),
        [q, k, v],
        backend=backend,
    )
