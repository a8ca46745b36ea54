"""A long map seen whole: its pyramid, what can be read off it, and one tile, beside SDPA's forward."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.alignments import RowState
from regard.core.lowering.roofline import rates_of
from regard.core.maps.lazy import LazyMap
from regard.core.maps.pyramid import default_cell
from regard.core.plan import plan
from regard.core.scores import Additive

from ..measure import BenchResult
from .harness import NEAR, Bar, BenchSetting, Disagree


def pyramids(
    setting: BenchSetting, n: int = 131072, heads: int = 12, d: int = 64, side: int = 256, pairs: int = 4096
) -> Iterator[BenchResult]:
    """the pyramid, the statistics and a tile of a long map beside SDPA's forward, a pyramid of additive scores"""
    with torch.no_grad():
        q, k, v = (x.detach() for x in setting.made(*[(1, heads, n, d)] * 3))
        made = plan(q, k, v, "scaled_dot", "softmax", None, backend="sdpa")
        tau = _tau(q, k)
        fresh: Callable[[], LazyMap] = lambda: LazyMap.of_plan(made, None, None)  # noqa: E731
        known: Callable[[], LazyMap] = lambda: LazyMap.of_plan(made, RowState(tau), None)  # noqa: E731
        sdpa = lambda: F.scaled_dot_product_attention(q, k, v)  # noqa: E731
        _see(known(), fresh(), q, k, tau)
        least = _least(q, n, heads, d)
        where = f"(1, {heads}, {n}, {d}) bfloat16"
        tasks: tuple[tuple[str, Callable[[], Any], Bar, int], ...] = (
            ("pyramid from q, k and tau", lambda: known().pyramid(), Bar(times=1.3), 1),
            ("pyramid, tau computed too", lambda: fresh().pyramid(), Bar(times=2.4), 2),
            ("entropy of each row, from tau", lambda: known().entropy(), Bar(), 1),
            ("mass of each key, from tau", lambda: known().mass(), Bar(), 1),
        )
        for name, run, bar, passes in tasks:
            mine, theirs = setting.times(run, sdpa)
            notes: dict[str, Any] = {"single_ms": setting.single(run), "extra_mib": setting.memory(run)}
            notes |= {"bound_ms": passes * least} if least else {}
            yield BenchResult(
                f"{name} {where}", "ms", mine, theirs, "SDPA forward", str(bar), bar.held(mine, theirs), notes
            )
        yield _search(setting, known(), where)
        yield _tile(setting, known()[0, heads - 1], q[0, -1], k[0, -1], tau[-1], side)
        yield _additive(setting, pairs, d)


def _additive(setting: BenchSetting, n: int, d: int, heads: int = 8) -> BenchResult:
    """A map of which no product of matrices is the score, beside the attention that it is of."""
    q, k, v = (x.detach() for x in setting.made(*[(1, heads, n, d)] * 3))
    score = Additive(d, heads=heads).to(setting.device, q.dtype)
    call = (q, k, v, score, "softmax", None)
    amap = setting.attended(*call).map
    assert isinstance(amap, LazyMap)
    cell = default_cell(n, n)

    def run() -> Any:
        amap._pyramid = None
        return amap.pyramid()

    w = deepcopy(score).float()(q[:, :, :cell].float(), k.float()).softmax(-1)
    cells = F.pad(w, (0, -n % cell)).unflatten(-1, (-1, cell))
    _near("additive pyramid", run()[0].mass[:, :, 0], cells.sum((2, 4)))
    mine, theirs = setting.times(run, lambda: setting.attend(*call))
    notes = {"single_ms": setting.single(run), "extra_mib": setting.memory(run)}
    where = f"(1, {heads}, {n}, {d}) bfloat16"
    return BenchResult(
        f"pyramid of additive scores from tau {where}",
        "ms",
        mine,
        theirs,
        "the same attention forward",
        "none",
        None,
        notes,
    )


def _least(q: Tensor, n: int, heads: int, d: int) -> float | None:
    """Milliseconds of one pass without values: a product and an exponential a pair."""
    rates = rates_of(q.device)
    pairs = float(heads) * n * n
    return None if rates is None else max(2 * pairs * d / rates.products, pairs / rates.specials) * 1e3


def _tau(q: Tensor, k: Tensor, step: int = 512) -> Tensor:
    """(heads, n): log sum exp of the scores, written out some rows at a time."""
    rows = q[0].split(step, 1)
    keys, scale = k[0].float().mT, q.shape[-1] ** -0.5
    return torch.cat([((part.float() @ keys) * scale).logsumexp(-1) for part in rows], 1)


def _see(known: LazyMap, fresh: LazyMap, q: Tensor, k: Tensor, tau: Tensor) -> None:
    """The first cells of both pyramids, the entropy and the mass against weights that are written out."""
    made = known.pyramid()
    side = made.cell
    w = torch.exp((q[0, :, :side].float() @ k[0].float().mT) * q.shape[-1] ** -0.5 - tau[:, :side, None])
    cells = F.pad(w, (0, -w.shape[-1] % side)).unflatten(-1, (-1, side))
    for level in (made[0], fresh.pyramid()[0]):
        _near("pyramid", level.mass[0, :, 0], cells.sum((1, 3)))
        _near("pyramid", level.peak[0, :, 0], cells.amax((1, 3)))
    _near("entropy", known.entropy()[0, :, :side], -torch.xlogy(w, w).sum(-1))
    _near("mass of all keys", known.mass().sum(-1), torch.full_like(tau[:, 0], float(known.n))[None])


def _near(name: str, mine: Tensor, true: Tensor) -> None:
    apart = float((mine - true).abs().max() / true.abs().max())
    if not apart <= NEAR[torch.float32]:
        raise Disagree(f"{name}: {apart:.2g} of the largest away from weights that are written out.")


def _search(setting: BenchSetting, amap: LazyMap, where: str) -> BenchResult:
    """Every weight above a threshold that about a thousand exceed, by descent."""
    peaks = amap.pyramid()[0].peak.flatten()
    threshold = float(peaks.topk(min(1000, peaks.numel())).values[-1])
    mine = setting.times(lambda: amap.find(threshold))[0]
    found = amap.find(threshold)
    return BenchResult(
        f"find, every weight above {threshold:.2g} {where}",
        "ms",
        mine,
        None,
        "",
        "none",
        None,
        {"found": len(found.weight), "single_ms": setting.single(lambda: amap.find(threshold))},
    )


def _tile(setting: BenchSetting, amap: Any, q: Tensor, k: Tensor, tau: Tensor, side: int) -> BenchResult:
    rows, columns = slice(amap.n // 2, amap.n // 2 + side), slice(amap.n // 4, amap.n // 4 + side)
    run = lambda: amap.tile(rows, columns)  # noqa: E731
    true = torch.exp((q[rows].float() @ k[columns].float().mT) * q.shape[-1] ** -0.5 - tau[rows, None])
    _near("tile", run(), true)
    burst, graph = setting.times(run)[0], setting.times(setting.graph(run))[0]
    bar = Bar(ms=0.1)
    return BenchResult(
        f"a tile of {side} x {side} at {amap.n} tokens",
        "ms",
        burst,
        None,
        "",
        str(bar),
        bar.held(burst, None),
        {"graph_ms": graph, "single_ms": setting.single(run)},
    )
