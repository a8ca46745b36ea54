"""The payload of two compared maps: both maps and their difference."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.difference import Difference, difference

from .arrays import Blobs
from .site_payload import SAMPLED_ROWS, pyramid_cells, single_map, site_payloads
from .thumbnails import THUMB, heads_of, pooled

Groups = Mapping[str, list[AttentionMap]]


def compared_sites(
    this: Groups, other: Groups, blobs: Blobs, step: "Callable[[int, int], None] | None" = None
) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """Payloads of the common sites, each with the other's map and the difference; and the names of unmatched sites."""
    pairs, only = differences_by_site(this, other)
    return difference_payloads(pairs, blobs, step), only


def differences_by_site(this: Groups, other: Groups) -> tuple[dict[str, Difference], list[list[str]]]:
    """The differences by site, and the names of unmatched sites. Two models that name no site alike and have as many
    are compared layer by layer, in order."""
    names = [(name, name) for name in this if name in other]
    in_order = not names and len(this) == len(other)
    if in_order:
        names = list(zip(this, other, strict=True))
    if not names:
        raise ValueError(
            f"beside=: no site is in both, and the first has {len(this)} sites ({', '.join(list(this)[:2])}, ...), the "
            f"second {len(other)} ({', '.join(list(other)[:2])}, ...). In Python, pass two mappings {{name: map}} "
            "whose names match."
        )
    only = [[] if in_order else [x for x in a if x not in b] for a, b in ((this, other), (other, this))]
    return {a: difference(single_map(this[a]), single_map(other[b])) for a, b in names}, only


def difference_payloads(
    pairs: Mapping[str, Difference],
    blobs: Blobs,
    step: "Callable[[int, int], None] | None" = None,
    top: float | None = None,
) -> list[dict[str, Any]]:
    """Payloads of sites with the other's map and the difference; `top`: maximum of the thumbnails' scale."""
    half = None if step is None else lambda done, of: step(done, 2 * of)
    last = None if step is None else lambda done, of: step(of + done, 2 * of)
    sites = site_payloads({name: [d.this] for name, d in pairs.items()}, blobs, half, share=2)
    others = site_payloads({name: [d.other] for name, d in pairs.items()}, blobs, last, share=2)
    small = {}
    for site, there, (name, d) in zip(sites, others, pairs.items(), strict=True):
        form: dict[str, Any] = {}
        if not d.n * d.m:
            small[name] = torch.zeros(d.heads, 0, 0)
        elif "cells" in (site["form"], there["form"]):
            form, small[name] = pyramid_cells(d, None, blobs)
        else:
            small[name] = heads_of(d.band(slice(0, d.n), slice(0, d.m)), d).float().cpu()
        for numbers, change in zip(site["numbers"], mean_change(d), strict=True):
            numbers["change"] = change
        site["rows"], site["columns"] = d.rows, d.columns
        site["beside"] = {"other": there, "difference": form, "rows": d.row_axis.marks, "columns": d.column_axis.marks}
    little = {name: _pooled_thumbnail(w) for name, w in small.items()}
    if top is None:
        top = max((float(x.abs().max()) for x in little.values() if x.numel()), default=0.0)
    for site in sites:  # one scale for all heads: unchanged ones are blank
        site["beside"]["difference"]["thumbs"] = blobs.add(_thumbs(little[site["site"]], top))
    return sites


def mean_change(d: Difference) -> list[float | None]:
    """Total variation distance of rows, averaged over evenly spaced rows, for each head."""
    rows = d.compared.nonzero()[:, 0]
    if not len(rows) or not d.m:
        return [None] * d.heads
    change = d.change(rows[:: max(1, -(-len(rows) // SAMPLED_ROWS))])
    made = change.mean(-1).reshape(d.heads, -1).mean(-1)
    return [None if x != x else x for x in made.tolist()]


def _pooled_thumbnail(w: Tensor) -> Tensor:
    """At most THUMB cells a side, each the weight of largest magnitude."""
    side = max(1, -(-max(w.shape[-2:]) // THUMB))
    return pooled(w.nan_to_num(), side, side)


def _thumbs(w: Tensor, top: float) -> np.ndarray:
    """8 bits with a sign: 128 is 0, 127 steps to either side, by the square root."""
    made = 128 + 127 * w.sign() * (w.abs() / (top or 1.0)).clamp_max(1).sqrt()
    return made.round().to(torch.uint8).numpy()
