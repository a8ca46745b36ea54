"""The payload of a map: one of five forms, from which the page computes every weight.

    weights   all weights in float32, for small maps
    qk        queries, keys and tau in their dtype, w_ij = exp(scale q_i . k_j + bias_j - tau_i), if that is smaller
    codes     8 bits a weight, c = 255 sqrt(w / maximum of the head), with the top of each row exact
    cells     the finest level of the pyramid (mean and peak in 16 bits, logarithmic), with queries and keys
    edges     float32 on the edges of a graph (graph_payload.py)

An aligned map (of a comparison) is encoded on the joint axes.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.alignments import Softmax
from regard.core.lowering.score_kernels import DotCore
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.difference import Aligned
from regard.core.maps.lazy import LazyMap
from regard.core.maps.stored import StoredMap
from regard.core.structures import Causal, Full, Padding, shift_of

from .arrays import Blobs, logarithmic, signed_logarithmic
from .generation import generation_steps
from .graph_payload import GraphPayload
from .mask_bits import allowed_pairs, pack_bits
from .thumbnails import THUMB, heads_of, pooled

EXACT_BYTES = 6_000_000  # up to so many bytes, all small maps of a page are exact
MAX_DENSE = 1 << 20  # up to so many weights a head, a page draws single weights
MAX_QUANTISED = 1 << 24  # up to so many weights a head without queries and keys, 8-bit codes
EXACT_TOP_K = 4  # exact weights of each row beside codes
SAMPLED_ROWS = 512  # evenly spaced rows for statistics of heads


class DotProductForm:
    """Queries and keys of a softmax map whose weights follow from them alone."""

    def __init__(self, q: Tensor, k: Tensor, tau: Tensor, scale: float, bias: Tensor | None, edge: dict[str, int]):
        self.q, self.k, self.tau, self.scale, self.bias, self.edge = q, k, tau, scale, bias, edge
        self.places: dict[str, Tensor] = {}  # of an aligned map: the query and key at each position, from 1

    @property
    def bytes(self) -> int:
        return sum(x.numel() * x.element_size() for x in (self.q, self.k, self.tau, self.bias) if x is not None)

    def weights(self, rows: slice, m: int) -> Tensor:
        """(g, r, m) as the page computes them."""
        keys = self.k.repeat_interleave(self.q.shape[0] // self.k.shape[0], 0).double()
        s = self.scale * self.q[:, rows].double() @ keys.mT - self.tau[:, rows, None].double()
        s = s if self.bias is None else s + self.bias[:, None].double()
        i, j = torch.arange(rows.start, rows.stop)[:, None], torch.arange(m)
        keep = (j <= i + self.edge.get("causal", m)) & (j < self.edge.get("length", m))
        return s.exp() * keep

    def form(self, blobs: Blobs) -> dict[str, Any]:
        made: dict[str, Any] = {
            "q": blobs.add(self.q),
            "k": blobs.add(self.k),
            "tau": blobs.add(self.tau),
            "scale": self.scale,
            **self.edge,
        }
        made |= {name: blobs.add(places.numpy().astype(np.uint32)) for name, places in self.places.items()}
        return made if self.bias is None else made | {"bias": blobs.add(self.bias)}


def dot_product_form(amap: AttentionMap) -> DotProductForm | None:
    """Queries and keys of a map, if the formula of the page reproduces its weights (checked on three rows)."""
    if isinstance(amap, Aligned):
        found = dot_product_form(amap.whole)
        if found is not None:
            found.places = {"rowOf": amap.rows_of.cpu() + 1, "columnOf": amap.columns_of.cpu() + 1}
        return found
    if not isinstance(amap, LazyMap) or amap.graph is not None or not amap.n or not amap.m:
        return None
    if amap.apart is not None:  # tau in float32 is not accurate enough
        return None
    problem, score = amap.live, amap.live.score
    plain = not score.modifiers and score.row_bias is None and problem.factor is None and not problem.sample
    if type(score.core) is not DotCore or not plain or type(problem.align) is not Softmax or amap.features is not None:
        return None
    if score.key_bias is not None and score.key_bias.ndim != 2:
        return None
    edge: dict[str, int] = {}
    for part in problem.structure.parts():
        if type(part) is Causal:
            edge["causal"] = shift_of(part.align, amap.n, amap.m, "Causal")
        elif type(part) is Padding:
            lengths = part.lengths.reshape(-1).cpu()
            edge["length"] = int(lengths[(amap.slab.start // problem.heads) % len(lengths)])
        elif type(part) is not Full:
            return None
    q, k, tau = (x[amap.slab].detach().cpu() for x in (score.core.a, score.core.b, amap.state.tau))
    bias = None if score.key_bias is None else score.key_bias[amap.slab].detach().float().cpu()
    q, k = (x.float() if x.dtype == torch.float64 else x for x in (q, k))
    made = DotProductForm(q, _unshared_keys(k), tau.float(), float(score.core.scale), bias, edge)
    for start in {0, amap.n // 2, amap.n - 1}:
        rows = slice(start, start + 1)
        if not torch.allclose(
            made.weights(rows, amap.m).float(), amap.band(rows, slice(0, amap.m)).float().cpu(), rtol=1e-3, atol=1e-6
        ):
            return None
    return made


def _unshared_keys(k: Tensor) -> Tensor:
    """Keys without the repetition of grouped-query attention: (g, m, d) -> (g_k, m, d)."""
    heads = k.shape[0]
    for groups in range(1, heads):
        if heads % groups == 0:
            parts = k.unflatten(0, (groups, heads // groups))
            if torch.equal(parts[:, :-1], parts[:, 1:]):
                return parts[:, 0]
    return k


def head_statistics(group: Sequence[AttentionMap]) -> list[dict[str, float | None]]:
    """Statistics of each head, averaged over rows: entropy in bits, weight of the first key, distance in tokens; the
    largest weight outside the first key, the last key and the three central diagonals."""
    parts = []
    for amap in group:
        step = max(1, -(-amap.n // SAMPLED_ROWS))
        line = torch.arange(0, amap.n, step, device=amap.none().device)
        for rows in line.split(max(1, (1 << 22) // max(1, amap.m * amap.heads))):
            w = heads_of(amap.band(rows, slice(0, amap.m)), amap).float().cpu()
            rows = rows.cpu()
            away = (rows[:, None] + max(0, amap.m - amap.n) - torch.arange(amap.m)).abs()
            near = away <= 1
            near[:, 0] = near[:, -1] = True
            parts.append(
                torch.stack(
                    [
                        -torch.xlogy(w, w).sum(-1) / np.log(2),
                        w[..., 0],
                        (w * away).sum(-1),
                        w.masked_fill(near, 0.0).amax(-1),
                        w.sum(-1),
                    ],
                    -1,
                )
            )
    x = torch.cat(parts, 1)  # (heads, rows, 5)
    open_rows = (x[..., 4] > 0).sum(1).clamp_min(1)[:, None]
    means = (x.sum(1) / open_rows).tolist()
    moves = all(amap.n <= amap.m for amap in group)
    means = [[value if math.isfinite(value) else None for value in head] for head in means]
    return [{"entropy": e, "sink": s, "distance": d if moves else None, "elsewhere": x} for e, s, d, x, _ in means]


def all_weights(group: Sequence[AttentionMap]) -> Tensor:
    """All weights of one item, (heads, n, m) float32; steps of a generation are concatenated."""
    m = max(amap.m for amap in group)
    parts = [
        torch.nn.functional.pad(heads_of(amap.band(slice(0, amap.n), slice(0, amap.m)), amap), (0, m - amap.m))
        for amap in group
    ]
    return torch.cat(parts, -2).float().cpu()


def quantised(w: Tensor, blobs: Blobs) -> dict[str, Any]:
    """8 bits a weight, with the top of each row exact."""
    top = w.amax((-1, -2)).clamp_min(1e-30)
    codes = (255 * (w.clamp_min(0) / top[:, None, None]).sqrt()).round().to(torch.uint8)
    best = w.topk(min(EXACT_TOP_K, w.shape[-1]), -1)
    keys = best.indices.numpy().astype(np.uint16 if w.shape[-1] <= 65536 else np.uint32)
    return {
        "form": "codes",
        "codes": blobs.add(codes),
        "top": top.tolist(),
        "best": blobs.add(best.values),
        "keys": blobs.add(keys),
    }


def pyramid_cells(amap: AttentionMap, dot_form: DotProductForm | None, blobs: Blobs) -> tuple[dict[str, Any], Tensor]:
    """The finest level of a map's pyramid with queries and keys; and its thumbnails."""
    pyramid = amap.pyramid()
    first = pyramid[0]
    mass, peak = (_flat(x, amap).float().cpu() for x in (first.mass, first.peak))
    count = first.count.reshape(-1, *first.count.shape[-2:]).cpu()
    mean = mass / count.clamp_min(1)
    same = bool((count == count[:1]).all())
    code = signed_logarithmic if amap.signed else logarithmic
    made = {
        "form": "cells",
        "cell": first.size,
        "mean": blobs.add(code(mean)),
        "peak": blobs.add(code(peak)),
        "count": blobs.add((count[:1] if same else count).numpy().astype(np.uint32)),
    }
    small = next((x for x in pyramid.levels if max(x.mass.shape[-2:]) <= THUMB), pyramid.levels[-1])
    return made if dot_form is None else made | dot_form.form(blobs), _flat(small.peak, amap).float().cpu()


def _flat(x: Tensor, amap: AttentionMap) -> Tensor:
    x = x.reshape(-1, *x.shape[len(amap.lead) :])
    return x if amap.features is None else x.mean(1)


def thumbs(w: Tensor) -> np.ndarray:
    """(heads, r, c) in 8 bits with at most THUMB cells a side: the square root of the largest weight of each."""
    side = max(1, -(-max(w.shape[-2:]) // THUMB))
    cells = pooled(w.abs().nan_to_num(), side, side)
    top = cells.amax((-1, -2), keepdim=True).clamp_min(1e-30)
    return (255 * (cells / top).sqrt()).round().to(torch.uint8).numpy()


def join_steps(maps: Mapping[str, AttentionMap]) -> dict[str, list[AttentionMap]]:
    """Maps by path, with the steps of a generation grouped: each continues the keys of the one before."""
    made: dict[str, list[AttentionMap]] = {}
    last: dict[str, str] = {}
    for name, amap in maps.items():
        path = re.sub(r":\d+$", "", name)
        group = made.get(last.get(path, ""), [])
        before = group[-1] if group else None
        grows = before is not None and amap.m - amap.n == before.m and amap.lead == before.lead
        crosses = before is not None and amap.n == 1 and amap.m == before.m and amap.columns == before.columns
        if before is not None and (grows or (crosses and amap.columns is not amap.rows and before.m != before.n)):
            group.append(amap)
        else:
            made[name] = [amap]
            last[path] = name
    return made


def single_map(group: Sequence[AttentionMap]) -> AttentionMap:
    """The map of a site: that of its single call, or the concatenated steps of a generation."""
    if len(group) == 1:
        return group[0]
    w, keep = all_weights(group), allowed_pairs(group)
    made = StoredMap(group[0].lead, w, rooted=False, keep=None if keep is None else keep.expand(w.shape))
    made.site, (made.rows, made.columns) = group[0].site, labels_of(group)
    return made


def labels_of(group: Sequence[AttentionMap]) -> "tuple[list[str] | None, list[str] | None]":
    """Labels of rows and columns, if their number matches."""
    n, m = sum(amap.n for amap in group), max(amap.m for amap in group)
    rows = [str(label) for amap in group for label in amap.rows or ()]
    columns = [str(label) for label in group[-1].columns or ()]
    return rows if rows and len(rows) == n else None, columns if columns and len(columns) == m else None


def short_name(name: str, place: int) -> str:
    """The short name of a site: the number of its layer, else its index."""
    found = re.findall(r"(?:^|\.)(\d+)(?=\.|:|$)", name)
    return found[0] if found else str(place)


def site_payloads(
    groups: "Mapping[str, list[AttentionMap]]",
    blobs: Blobs,
    step: Any = None,
    share: int = 1,
    graphs: GraphPayload | None = None,
) -> list[dict[str, Any]]:
    """Payloads of the sites of a page. Small maps are exact if that takes at most 6 MB / share, otherwise in 8 bits;
    sites of `graphs` are encoded as edges.
    """
    on_edges = graphs.ran if graphs is not None else {}
    forms = {name: dot_product_form(group[0]) if len(group) == 1 else None for name, group in groups.items()}
    need = sum(
        _bytes(group, forms[name])
        for name, group in groups.items()
        if _size(group) <= MAX_DENSE and name not in on_edges
    )
    exact = need * share <= EXACT_BYTES
    made = []
    for place, (name, group) in enumerate(groups.items()):
        form = graphs.form(name, blobs) if graphs and name in on_edges else _site_form(group, forms[name], exact, blobs)
        made.append(outline(name, group, place) | form)
        if step is not None:
            step(place + 1, len(groups))
    return made


def site_payload(group: Sequence[AttentionMap], blobs: Blobs) -> dict[str, Any]:
    """The payload of one site without its outline: exact if that takes at most 6 MB."""
    form = dot_product_form(group[0]) if len(group) == 1 else None
    return _site_form(group, form, _bytes(group, form) <= EXACT_BYTES, blobs)


def outline(name: str, group: Sequence[AttentionMap], place: int) -> dict[str, Any]:
    """The outline of a site: names, sizes, labels."""
    n, m = sum(amap.n for amap in group), max(amap.m for amap in group)
    rows, columns = labels_of(group)
    return {
        "site": name,
        "short": short_name(name, place),
        "heads": group[0].heads,
        "n": n,
        "m": m,
        "rows": rows,
        "columns": columns,
        **generation_steps(group, rows),
    }


def is_large(group: Sequence[AttentionMap]) -> bool:
    """Whether a head of this site is too large for a dense payload."""
    return _size(group) > MAX_DENSE


def _size(group: Sequence[AttentionMap]) -> int:
    return sum(amap.n for amap in group) * max(amap.m for amap in group)


def _bytes(group: Sequence[AttentionMap], form: DotProductForm | None) -> int:
    """The size of the smallest exact form of a small map."""
    plain = 4 * group[0].heads * _size(group)
    return plain if form is None else min(plain, form.bytes)


def _site_form(
    group: Sequence[AttentionMap], dot_form: DotProductForm | None, exact: bool, blobs: Blobs
) -> dict[str, Any]:
    some = sum(amap.n for amap in group) and max(amap.m for amap in group)
    own = [amap.whole if isinstance(amap, Aligned) else amap for amap in group]
    site: dict[str, Any] = {"numbers": head_statistics(own) if some else [{} for _ in range(own[0].heads)]}
    if _size(group) > MAX_DENSE:
        if len(group) == 1 and (dot_form is not None or _size(group) > MAX_QUANTISED):
            form, little = pyramid_cells(group[0], dot_form, blobs)
            return site | form | {"thumbs": blobs.add(thumbs(little))}
        exact = False
    w = all_weights(group)
    site["thumbs"] = blobs.add(thumbs(w) if w.numel() else np.zeros((w.shape[0], 0, 0), np.uint8))
    if exact and dot_form is not None and dot_form.bytes < 4 * w.numel():
        return site | {"form": "qk"} | dot_form.form(blobs)
    keep = allowed_pairs(group) if w.numel() else None
    site |= {} if keep is None else {"open": blobs.add(pack_bits(keep))}
    if not exact and not bool((w < 0).any()):  # 8 bits have no sign
        return site | quantised(w, blobs)
    return site | {"form": "weights", "weights": blobs.add(w)}
