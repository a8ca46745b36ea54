"""Rollout: attention through all layers, by the product of their weights with the residual stream."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.core.autocast import without_autocast
from regard.core.maps.attention_map import AttentionMap

from .combined import mean_of_heads
from .layers import Layer, layers_of, part_of

WHOLE = 1 << 24  # cells up to which a walk is done once for all rows
Pass = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Walk(AttentionMap):
    """Rows of a product of layers. A band walks from the last layer to the first with its own rows: O(r n) memory.

    pass_on(x (g, r, i), w (g, i, m)) -> what stays where it is, (g, r, i), and what is handed to the keys, (g, r, m).
    """

    def __init__(self, layers: Sequence[Layer], part: str, pass_on: Pass):
        here = [
            layer for layer in layers if part in ("cross", layer.kind) or (part == "target" and layer.kind == "cross")
        ]
        ends = [layer.map for layer in layers if layer.kind == part]
        batch = ends[0].lead[:-1]
        super().__init__((*batch, 1), ends[0].n, ends[0].m, slice(0, torch.Size(batch).numel()))
        self.layers, self.part, self.pass_on = here, part, pass_on
        self.rows, self.columns = ends[-1].rows, ends[-1].columns
        self._walked: list[Tensor] = []  # shared by narrowed maps

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        if not self._walked and self._batch() * self.n * self.m <= WHOLE:
            self._walked.append(self._walk(slice(0, self.n), slice(0, self._batch())))
        if self._walked:
            return self._walked[0][self.slab][..., rows, :][..., cols]
        return self._walk(rows, self.slab)[..., cols]

    def _batch(self) -> int:
        return torch.Size(self.layers[0].map.lead[:-1]).numel()

    @torch.no_grad()
    def _walk(self, rows: "slice | Tensor", slab: slice) -> Tensor:
        some = self.layers[-1].map.none()
        dtype = torch.float64 if some.dtype == torch.float64 else torch.float32
        start = torch.eye(self.n, dtype=dtype, device=some.device)[rows].expand(slab.stop - slab.start, -1, -1)
        at = {"source" if self.part == "source" else "target": start}
        for layer in reversed(self.layers):
            side, to = ("target", "source") if layer.kind == "cross" else (layer.kind, layer.kind)
            amap = layer.map.narrowed((slab.stop - slab.start,), slab)
            if side not in at:  # the decoder's own rows never reach it
                continue
            stays, moves = [], at[side].new_zeros((*at[side].shape[:-1], amap.m))
            for line, w in amap.bands():
                with without_autocast(some.device):
                    stay, move = self.pass_on(at[side][..., line], w.to(dtype))
                stays.append(stay)
                moves += move
            stayed = torch.cat(stays, -1)
            if side == to:
                at[side] = stayed + moves
            else:
                at[side], at[to] = stayed, at[to] + moves if to in at else moves
        wanted = "target" if self.part == "target" else "source"
        return at[wanted]

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return torch.ones_like(self.band(rows, cols), dtype=torch.long)

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "Walk":
        made: Walk = object.__new__(Walk)
        made.__dict__.update(self.__dict__)
        made.lead, made.slab, made._pyramid = lead, slab, None
        return made


def rollout(maps: Any, *, part: str | None = None, sites: str = "*", residual: float = 0.5) -> AttentionMap:
    """What each token of the input has to do with each one of the output, layer by layer: a map (B, 1, n, m).

        R = A'_L ... A'_1,    A'_l = (residual I + (1 - residual) A_l) with rows made to sum to one

    maps      a record of one forward pass, or the maps of the layers, the first layer first
    part      in an encoder-decoder: "cross" (target tokens by source tokens, the default), "target", "source"
    sites     which sites of a record are the layers; attentions that a layer runs side by side count one after another
    residual  what passes a layer by: Abnar & Zuidema take a half

    A_l is the mean of a layer's heads. Rows sum to one. No weight ever falls on padding from a token that is not
    padding (rows of padding mean nothing), nor on later tokens in a causal model. A row that attends nothing keeps
    itself. In an encoder-decoder, a cross-attention hands its share to the encoder's last tokens, whose rollout goes on
    from there: the rows of "cross" and "target" together sum to one. row(i) takes O(n) memory at any length.
    Abnar & Zuidema 2020.
    """
    if not 0.0 <= residual <= 1.0:
        raise ValueError(f"rollout(residual={residual!r}): expected a share from 0 to 1.")
    layers = averaged(layers_of(maps, sites))

    def pass_on(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        stay, move = shares(w, residual)
        return x * stay.transpose(-1, -2), x @ move

    return Walk(layers, part_of(layers, part), pass_on)


def averaged(layers: list[Layer]) -> list[Layer]:
    """Layers with the mean of their heads."""
    return [Layer(layer.name, layer.kind, mean_of_heads(layer.map)) for layer in layers]


def shares(w: Tensor, residual: float) -> tuple[Tensor, Tensor]:
    """Of each row of w (g, r, m): what stays with the token, (g, r, 1), and what goes to each key, (g, r, m)."""
    total = residual + (1.0 - residual) * w.sum(-1, keepdim=True)
    scale = total.where(total == 0, 1.0 / total)
    return residual * scale, (1.0 - residual) * scale * w
