"""factored_attend(): linear attention by feature products, within segments."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..arguments import number, shown, whole
from ..attend import Attended
from .factored_map import FactoredMap
from .segment_products import in_segments

call_hooks: list[Callable[..., Attended]] = []  # while attention is recorded: the last one calls run(q, k, v, ...)


def factored_attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    ids: Tensor | None = None,
    count: int = 1,
    own: Tensor | None = None,
    eps: float = 0.0,
    signed: bool = True,
) -> Attended:
    """Attention by associativity: no n x n matrix, and exact weights of any pair when they are read.

        y_i = sum_j A_ij v_j,   A_ij = (q_i . k_j + own_i [i = j]) / (sum_l q_i . k_l + own_i + eps),   j in i's segment

    q, k (..., n, d), v (..., n, d_v), leading axes alike  ->  out (..., n, d_v), and the map of A

    ids, count   (n,) the segment of each row, 0 to count - 1, in any order; one segment unless given
    own          (n,) what each row adds to its own weight
    signed       whether weights may be negative; non-negative features give non-negative weights

    A row whose normaliser is 0 gives 0. Memory is O(n d d_v / 64 + count d d_v) beside the inputs. Katharopoulos et
    al. 2020. With one segment, no `own` and no eps this is the score "linear_kernel" with precomputed features.
    """
    _check(q, k, v, ids, own)
    whole(count, "factored_attend", "count", 0)
    number(eps, "factored_attend", "eps", 0)
    if call_hooks:
        return call_hooks[-1](_run, q, k, v, ids, count, own, eps, signed)
    return _run(q, k, v, ids, count, own, eps, signed)


def _run(
    q: Tensor, k: Tensor, v: Tensor, ids: Tensor | None, count: int, own: Tensor | None, eps: float, signed: bool
) -> Attended:
    lead, n = q.shape[:-2], q.shape[-2]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    g = math.prod(lead)
    asked, keys, values = (x.reshape(g, n, x.shape[-1]).to(wide) for x in (q, k, v))
    counted = torch.cat([values, torch.ones_like(values[..., :1])], -1)  # the last column sums the weights
    found = in_segments(asked, keys, counted, ids, count)
    total, norm = found[..., :-1], found[..., -1]
    if own is not None:
        each = own.to(wide)
        total, norm = total + each[:, None] * values, norm + each
    norm = norm + eps
    there = norm != 0
    inverse = there / norm.where(there, 1.0)
    out = total * inverse[..., None]
    amap = FactoredMap(tuple(lead), asked, keys, inverse, ids, own, signed)
    return Attended(out.to(v.dtype).reshape(*lead, n, v.shape[-1]), amap)


def _check(q: Tensor, k: Tensor, v: Tensor, ids: Tensor | None, own: Tensor | None) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point():
            raise TypeError(f"factored_attend({name}={shown(x)}): expected a floating-point tensor (..., n, d).")
    if q.shape != k.shape or q.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            f"factored_attend got q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}: expected q and k "
            "alike, and a value for each key."
        )
    for name, each in (("ids", ids), ("own", own)):
        if each is not None and (not isinstance(each, Tensor) or tuple(each.shape) != (q.shape[-2],)):
            raise ValueError(f"factored_attend({name}={shown(each)}): expected a tensor ({q.shape[-2]},), one a row.")
