"""Operations on rows of weights: masking, permutation, mixing two maps."""

import zlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.lowering.tiles import Tile
from regard.core.maps.attention_map import BAND, AttentionMap
from regard.core.scores import Modifier
from regard.core.structures import Full, Structure

from ..capture.mask_structure import LOW


class MixedMap(AttentionMap):
    """The weights of one of two maps, by head and row: where (1, H, n, 1)."""

    def __init__(self, before: AttentionMap, after: AttentionMap, where: Tensor, whole: Tensor | None = None):
        super().__init__(before.lead, before.n, before.m, before.slab)
        self.before, self.after = before, after
        self.whole = where.expand(before.lead[0], -1, -1, -1).flatten(0, 1) if whole is None else whole  # (g, n, 1)

    def _pick(self, after: Tensor, before: Tensor, rows: "slice | Tensor") -> Tensor:
        where = self.whole[self.slab].to(before.device)[:, rows]
        return torch.where(where, after.to(before.device, before.dtype), before)

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return self._pick(self.after.band(rows, cols), self.before.band(rows, cols), rows)

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return self._pick(self.after.allowed(rows, cols), self.before.allowed(rows, cols), rows)

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "MixedMap":
        return MixedMap(self.before.narrowed(lead, slab), self.after.narrowed(lead, slab), self.whole, self.whole)


class AsItIs(Modifier):
    """s' = s. A score with a modifier of the user's own runs outside custom operators, as a user's mask must."""

    shifts = True

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return s


@dataclass(frozen=True, eq=False)
class Open(Structure):
    """Pairs that modifiers leave open: a score of 0 does not become a very low number, `low` at most."""

    modifiers: tuple[Any, ...]
    low: float = LOW

    def allowed(self, tile: Tile) -> Tensor | None:
        shape = torch.broadcast_shapes(tile.batch.shape, tile.query.shape, tile.key.shape)
        s = torch.zeros(shape, device=tile.key.device)
        for modifier in self.modifiers:
            s = modifier(s, tile)
        return s > self.low


@dataclass(frozen=True, eq=False)
class Apart(Structure):
    """All pairs but these: codes i m + j, (pairs,)."""

    codes: Tensor

    def allowed(self, tile: Tile) -> Tensor | None:
        return torch.isin(tile.query * tile.m + tile.key, self.codes, invert=True)


def allowed(over: Structure, shape: tuple[int, ...], device: torch.device) -> Tensor | None:
    """Bool (B, H, n, m), or None where every pair may meet."""
    if isinstance(over, Full):
        return None
    batch, heads, n, m = shape
    keep = over.fit((batch,), heads, n, m).allowed(Tile.whole(batch, heads, n, m, device))
    return None if keep is None else keep.expand(batch * heads, n, m).unflatten(0, (batch, heads))


def closed(weights: Tensor, over: Structure, renormalise: bool = True) -> Tensor:
    """Weights of the pairs that are open; each row keeps its sum, as if the scores of the others had been -inf.

    What a row lacks to one is a sink's and counts like another key.
    """
    keep = allowed(over, tuple(weights.shape), weights.device)
    if keep is None:
        return weights
    left = weights.masked_fill(~keep, 0.0)
    return left * share(weights.sum(-1, keepdim=True), left.sum(-1, keepdim=True)) if renormalise else left


def share(total: Tensor, left: Tensor) -> Tensor:
    """What to multiply a row by whose weights summed to `total` and now sum to `left`."""
    lacks = (1 - total).clamp_min(0.0)
    lacks = lacks.where(lacks > 16 * torch.finfo(total.dtype).eps, 0.0)
    return total.clamp_min(1.0).where(lacks == 0, 1.0) / (left + lacks).clamp_min(torch.finfo(total.dtype).tiny)


def permuted(weights: Tensor, keep: Tensor | None, seed: "int | Tensor") -> Tensor:
    """Each row's weights, permuted among the pairs of keep; the order depends on the seed, not on the batch."""
    batch, heads, n, m = weights.shape
    key, made = torch.as_tensor(seed, device=weights.device), []
    step = max(1, BAND // max(1, batch * heads * m))
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        tile = Tile.dense(heads, n, m, weights.device, slice(0, batch * heads), rows, slice(0, m))
        draw, band = tile.uniform(key).unflatten(0, (batch, heads)), weights[:, :, rows]
        if keep is None:
            made.append(band.gather(-1, draw.argsort(-1)))
            continue
        some = keep.expand(weights.shape)[:, :, rows]
        drawn = draw.masked_fill_(~some, 2.0).argsort(-1)  # the allowed keys first, in a drawn order
        rank = (some.cumsum(-1) - 1).clamp_min_(0)  # which of the allowed keys each is, counted from 0
        made.append(band.gather(-1, drawn.gather(-1, rank)).masked_fill(~some, 0.0))
    return torch.cat(made, -2) if made else weights


def seeded(seed: int, name: str) -> int:
    """A seed derived for each site."""
    return (seed * 0x9E3779B1 + zlib.crc32(name.encode())) % (1 << 62)


def marked(index: "list[int]", size: int, device: torch.device) -> Tensor:
    made = torch.zeros(size, dtype=torch.bool, device=device)
    made[index] = True
    return made
