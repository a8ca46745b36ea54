"""Sparse alignments: entmax 1.5 beside AdaSplash, the best keys beside torch.topk of all scores."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from regard.core.alignments import TopK
from regard.core.lowering.roofline import open_pairs
from regard.core.structures import Causal, Full, Structure, Window

from ..measure import BenchResult
from .harness import BOTH, FORWARD, Bar, BenchSetting, PeerPair

SEGMENT = 128  # tokens beside each other that look at the same ones: whole tiles of either side
GROUPS = {0: 1, 50: 2, 90: 11}  # percent of tiles without weight: how many kinds of segments there are
FAR = 9.0  # what tells kinds apart, so large that no weight lies between them
CHUNK = 512  # rows written out at a time by the truth


def entmax(
    setting: BenchSetting,
    n: int = 8192,
    odd: int = 5000,
    width: int = 1024,
    heads: int = 8,
    d: int = 64,
    segment: int = SEGMENT,
    peer: Callable[..., Tensor] | None = None,
) -> Iterator[BenchResult]:
    """entmax 1.5 beside AdaSplash, where that is installed"""
    peer = peer or _adasplash()
    rate: dict[str, float] = {}
    for percent, kinds in GROUPS.items():
        tensors = _grouped(setting, n, heads, d, kinds, segment)
        name = f"entmax 1.5 causal (1, {heads}, {n}, {d}) bfloat16, {percent} % empty"
        pair = _pair(setting, name, tensors, Causal(), peer)
        empty = _empty(setting, tensors, 64 if setting.gpu else 4)
        for way in (FORWARD, BOTH):
            made = pair.measured(way, Bar(times=1))
            made.notes["empty_tiles"] = empty
            if percent == 0 and made.peer is not None:
                rate[way] = made.peer / (heads * open_pairs(Causal(), n, n)) * 1e9
            yield made
    across = n // 4
    cases: tuple[tuple[str, int, int, Structure], ...] = (
        ("causal", odd, odd, Causal()),
        (f"causal window of {width}", n, n, Causal() & Window(width, 0)),
        ("across", across, n, Full()),
    )
    for name, rows, columns, over in cases:
        tensors = setting.made((1, heads, rows, d), *[(1, heads, columns, d)] * 2)
        pair = _pair(setting, f"entmax 1.5 {name}, {rows} queries, {columns} keys, bfloat16", tensors, over, None)
        for way in (FORWARD, BOTH):
            yield _by_pair(pair.measured(way, Bar()), heads * open_pairs(over, rows, columns), rate.get(way))


def _by_pair(made: BenchResult, pairs: int, theirs: float | None) -> BenchResult:
    """The same in picoseconds for each pair that may meet, beside those of AdaSplash where that runs."""
    made.notes |= {"ms": made.ours, "pairs": pairs}
    bar = Bar(times=1.3)
    made.ours, made.unit, made.peer = made.ours / pairs * 1e9, "ps a pair", theirs
    made.peer_name, made.bar, made.held = "AdaSplash, causal", f"{bar} a pair", bar.held(made.ours, theirs)
    return made


def _adasplash() -> Callable[..., Tensor] | None:
    try:
        from adasplash import adasplash  # type: ignore[import-not-found]
    except ImportError:
        return None
    return lambda q, k, v: adasplash(q, k, v, alpha=1.5, is_causal=True)


def _pair(
    setting: BenchSetting, name: str, tensors: list[Tensor], over: Structure, peer: Callable[..., Tensor] | None
) -> PeerPair:
    q, k, v = tensors
    call: tuple[Any, ...] = (q, k, v, "scaled_dot", "entmax15", over)
    return PeerPair(
        setting,
        name,
        lambda: setting.attend(*call),
        None if peer is None else lambda: peer(q, k, v),
        "AdaSplash",
        call,
        tensors,
        lambda: by_definition(q, k, v, over),
    )


def by_definition(q: Tensor, k: Tensor, v: Tensor, over: Structure) -> Tensor:
    """entmax 1.5 of all scores by sorting (Peters et al. 2019), some rows at a time."""
    n, m, scale = q.shape[-2], k.shape[-2], q.shape[-1] ** -0.5
    made = []
    for start in range(0, n, CHUNK):
        rows = slice(start, min(n, start + CHUNK))
        s = (q[..., rows, :].float() @ k.float().mT) * scale
        i, j = torch.arange(start, rows.stop, device=q.device)[:, None], torch.arange(m, device=q.device)
        for part in over.parts():
            if isinstance(part, Causal):
                s = s.masked_fill(j > i, -torch.inf)
            elif isinstance(part, Window):
                s = s.masked_fill((j < i - part.left) | (j > i + part.right), -torch.inf)
        made.append(_entmax15(s) @ v.float())
    return torch.cat(made, -2).to(v.dtype)


def _entmax15(s: Tensor) -> Tensor:
    """(s / 2 - tau)_+^2, tau from the largest number of scores whose own tau lies below the smallest of them."""
    half = (s - s.amax(-1, keepdim=True)).div(2).clamp_min(-4)  # nothing below -1 counts, and -inf has no square
    with torch.no_grad():
        high = half.sort(-1, descending=True).values
        count = torch.arange(1, high.shape[-1] + 1, device=s.device)
        mean, square = high.cumsum(-1) / count, high.square().cumsum(-1) / count
        taus = _tau(count, mean, square)
        counts = half > taus.gather(-1, (taus <= high).sum(-1, keepdim=True) - 1)
        size = counts.sum(-1, keepdim=True)
    mean, square = ((x * counts).sum(-1, keepdim=True) / size for x in (half, half.square()))
    return (half - _tau(size, mean, square)).clamp_min(0).square() * counts


def _tau(size: Tensor, mean: Tensor, square: Tensor) -> Tensor:
    """sum (x - tau)^2 = 1 over so many x of this mean and mean square."""
    return mean - (1 / size - (square - mean.square())).clamp_min(1e-12).sqrt()


def _grouped(setting: BenchSetting, n: int, heads: int, d: int, kinds: int, segment: int) -> list[Tensor]:
    """Random queries, keys and values whose segments are of so many kinds, in turn, and look only at their own."""
    q, k, v = setting.made(*[(1, heads, n, d)] * 3)
    if kinds > 1:
        kind = torch.arange(n, device=setting.device) // segment % kinds
        mark = FAR * torch.nn.functional.one_hot(kind, d).to(q.dtype)
        q, k = ((x.detach() + mark).requires_grad_() for x in (q, k))
    return [q, k, v]


def _empty(setting: BenchSetting, tensors: list[Tensor], side: int) -> float:
    """The share of tiles of side x side that may be seen and hold no weight, read off the map."""
    q, k, v = tensors
    with torch.no_grad():
        level = setting.attended(q, k, v, "scaled_dot", "entmax15", Causal()).map.pyramid(side)[0]
    seen = level.count > 0
    return float(((level.peak == 0) & seen).sum() / seen.sum())


def best(setting: BenchSetting, n: int = 4096, heads: int = 8, d: int = 64, k: int = 32) -> Iterator[BenchResult]:
    """softmax over the 32 best keys beside torch.topk of all scores"""
    query, key, value = setting.made(*[(1, heads, n, d)] * 3)

    def peer(exact: bool = False) -> Tensor:
        s = (query.float() @ key.float().mT if exact else (query @ key.mT).float()) * d**-0.5
        top, index = s.topk(k)
        return torch.zeros_like(s).scatter(-1, index, top.softmax(-1)).to(value.dtype) @ value

    call = (query, key, value, "scaled_dot", TopK(k))
    pair = PeerPair(
        setting,
        f"top-{k} (1, {heads}, {n}, {d}) bfloat16",
        lambda: setting.attend(*call),
        peer,
        "torch.topk",
        call,
        [query, key, value],
        lambda: peer(exact=True),
        unlike=True,
    )  # fmt: skip  16 bits choose other keys
    yield pair.measured(FORWARD, Bar(times=1))
    yield pair.measured(BOTH, Bar(times=1), memory=True)
