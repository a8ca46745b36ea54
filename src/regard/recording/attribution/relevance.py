"""Relevance of the weights to one score: gradient times attention, and relevance propagated through all layers."""

from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from regard.core.autocast import without_autocast
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.stored import StoredMap

from ..record import Maps
from .combined import each_head, over_heads
from .layers import Layer, layers_of, part_of
from .rollout import Walk
from .targets import Target, held, pull, score_of


def gradient_times_attention(
    rec: Any,
    output: Any = None,
    *,
    target: Target = None,
    contrast: Target = None,
    position: Any = -1,
    sites: str = "*",
) -> Maps:
    """Each weight times the gradient of a score by it, w_ij ds/dw_ij: maps (B, H, n, m) by site.

        with regard.record(model, grad=True) as rec:
            out = model(**inputs)
        derived.gradient_times_attention(rec, out, target=1, contrast=0)

    To first order, what the score loses when the weight is taken away. Without an output, the gradients are those of
    the backward pass that was made. target, contrast, position: see `score_of`.
    """
    _backward(rec, output, target, contrast, position)
    made = Maps()
    for name in rec.gradients:
        if fnmatchcase(name, sites) and name in rec.maps:
            made._by_site[name] = each_head(
                [rec.maps[name], held(rec.gradients[name])], lambda bands, heads, cols: (bands[0] * bands[1])[:, 0]
            )
    return made


def relevance(
    rec: Any,
    output: Any = None,
    *,
    target: Target = None,
    contrast: Target = None,
    position: Any = -1,
    part: str | None = None,
    sites: str = "*",
) -> AttentionMap:
    """The relevance of each token to each token of the last layer, for one score: a map (B, 1, n, m).

        A'_l = mean over heads of max(0, w_l * ds/dw_l)
        R <- R + A'_l R, from R = I, layer by layer
        in an encoder-decoder, with N(R) = I + (R - I with rows made to sum to one):
        R_cross <- R_cross + A' R_cross (self-attention of the decoder)
        R_cross <- R_cross + N(R_target)^T A' N(R_source) (cross-attention)

    Read the row whose output made the score: 0 for a classifier that reads [CLS], the last token's for a language
    model; the diagonal holds the 1 that it started from. target, contrast, position: see `score_of`; part: "source",
    "target", "cross". A score that no weight helps has R = I. Chefer, Gur & Wolf 2021 (the attention form).
    """
    _backward(rec, output, target, contrast, position)
    layers = layers_of(rec, sites)
    for layer in layers:
        if layer.name not in rec.gradients:
            raise ValueError(
                f"There is no gradient of {layer.name}: use record(model, grad=True) while torch's gradients are on."
            )
    weighted = [
        Layer(
            layer.name,
            layer.kind,
            over_heads(
                [layer.map, held(rec.gradients[layer.name])],
                lambda bands, heads, cols: (bands[0] * bands[1]).clamp_min(0.0).mean(1),
            ),
        )
        for layer in layers
    ]
    part = part_of(layers, part)
    if part != "cross":
        return Walk([layer for layer in weighted if layer.kind == part], part, lambda x, w: (x, x @ w))
    with without_autocast(weighted[0].map.none().device):
        return _across(weighted)


@torch.no_grad()
def _across(layers: list[Layer]) -> AttentionMap:
    """Target tokens by source tokens, (B, 1, n, m), from whole matrices: the rule turns and normalises them."""
    last = [layer.map for layer in layers if layer.kind == "cross"][-1]
    items = last.slab.stop - last.slab.start
    some = last.none()
    source, target = (
        torch.eye(size, dtype=some.dtype, device=some.device).repeat(items, 1, 1) for size in (last.m, last.n)
    )
    cross = source.new_zeros((items, last.n, last.m))
    for layer in layers:
        w = layer.map.band(slice(0, layer.map.n), slice(0, layer.map.m))
        if layer.kind == "source":
            source = source + w @ source
        elif layer.kind == "target":
            target, cross = target + w @ target, cross + w @ cross
        else:
            cross = cross + normalised(target).transpose(-1, -2) @ w @ normalised(source)
    made = StoredMap(last.lead, cross, rooted=False)
    made.site, made.rows, made.columns = last.site, last.rows, last.columns
    return made


def normalised(r: Tensor) -> Tensor:
    """I + (R - I) with rows that sum to one; a row of zeros stays."""
    one = torch.eye(r.shape[-1], dtype=r.dtype, device=r.device)
    more = r - one
    total = more.sum(-1, keepdim=True)
    return one + more / total.where(total > 0, 1.0)


def _backward(rec: Any, output: Any, target: Target, contrast: Target, position: Any) -> None:
    if not hasattr(rec, "gradients"):
        raise TypeError(f"Expected a record made with record(model, grad=True), got a {type(rec).__name__}.")
    if output is not None:
        pull(rec, score_of(output, target, contrast, position))
    elif target is not None or contrast is not None:
        raise ValueError("target= and contrast= need the output of the recorded run: relevance(rec, output, ...).")
    elif not rec.gradients:
        raise ValueError("This record has no gradients: use record(model, grad=True).")
