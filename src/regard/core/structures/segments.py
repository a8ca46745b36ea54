"""Segments: packed sequences, and pooling."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..arguments import whole
from ..errors import values_are_checked
from ..lowering.kernel_forms import SEGMENTS, StructureForm
from ..lowering.tiles import Tile
from .packing import Packing
from .structure import Structure, kind_of


@dataclass(frozen=True, eq=False)
class Segments(Structure):
    """Pairs of the same segment: packed sequences, and pooling.

        ids[i] == key_ids[j]

    Also known as: packed sequences, varlen, document mask, block-diagonal mask.

    Segments(ids)              packed self-attention; ids (n,) or (batch, n), any integers >= 0
    Segments(ids, key_ids=...) packed cross-attention
    Segments.packed(cu_seqlens) the same from offsets (s + 1,): 0 first, the total last
    Segments(ids, count=s)     pooling: query c of s attends the keys whose id is c (empty segments give 0)
    """

    ids: Tensor
    key_ids: Tensor | None = None
    count: int | None = None

    @staticmethod
    def packed(cu_seqlens: Tensor, key_cu_seqlens: Tensor | None = None) -> "Segments":
        """cu_seqlens (s + 1,), as flash attention's kernels take them; key_cu_seqlens for cross-attention."""
        ends = [cu_seqlens] if key_cu_seqlens is None else [cu_seqlens, key_cu_seqlens]
        ids = [Packing.of(one, int(one[-1]) if isinstance(one, Tensor) and one.ndim == 1 else 0).ids for one in ends]
        return Segments(ids[0], key_ids=ids[1] if len(ids) > 1 else None)

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        if self.count is not None:
            whole(self.count, "Segments", "count", 0)
            if self.key_ids is not None:
                raise ValueError("Segments(ids, key_ids, count): give key_ids (cross-attention) or count (pooling).")
            if n != self.count:
                raise ValueError(
                    f"Segments(count={self.count}) pools into {self.count} rows, but there are n={n} "
                    "queries: pass one query a segment."
                )
            keys = self._row(self.ids, "ids", lead, m)
            if values_are_checked(keys) and keys.numel() and int(keys.max()) >= self.count:
                raise ValueError(
                    f"Segments(ids) holds {int(keys.max())}, expected 0 to {self.count - 1} (count={self.count})."
                )
            return Segments(torch.arange(n, device=keys.device)[None], keys)
        keys = self._row(
            self.ids if self.key_ids is None else self.key_ids,
            "key_ids" if self.key_ids is not None else "ids",
            lead,
            m,
        )
        return Segments(self._row(self.ids, "ids", lead, n), keys)

    @staticmethod
    def _row(ids: Tensor, name: str, lead: tuple[int, ...], size: int) -> Tensor:
        if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.dtype == torch.bool:
            raise TypeError(f"Segments({name}={kind_of(ids)}): expected an integer tensor of segment ids.")
        if ids.ndim == 0 or ids.shape[-1] != size:
            raise ValueError(
                f"Segments({name}) has shape {tuple(ids.shape)}, expected {size} ids in its last axis. "
                "Cross-attention needs key_ids=, pooling needs count=."
            )
        if values_are_checked(ids) and ids.numel() and int(ids.min()) < 0:
            raise ValueError(
                f"Segments({name}) holds {int(ids.min())}, expected ids >= 0. Keys without a segment "
                "are masked by & Padding(lengths) or & Mask(keep=...)."
            )
        if ids.ndim == 1:
            return ids[None]
        try:
            return ids.expand(*lead, size).flatten(0, -2)
        except RuntimeError:
            raise ValueError(
                f"Segments({name}) has shape {tuple(ids.shape)}, expected (..., {size}) with the batch "
                f"shape {lead} or none."
            ) from None

    def kernel_form(self, n: int, m: int) -> StructureForm:
        return StructureForm(SEGMENTS, ids=self.ids, key_ids=self._keys)

    def allowed(self, tile: Tile) -> Tensor | None:
        return _pick(self.ids, tile.batch, tile.query) == _pick(self._keys, tile.batch, tile.key)

    @property
    def _keys(self) -> Tensor:
        return self.ids if self.key_ids is None else self.key_ids

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        keys = self._keys
        if keys.device.type != "cpu" or keys.shape[0] != 1 or not bool((keys[0, 1:] >= keys[0, :-1]).all()):
            return 0, m
        ids = self.ids[:, rows]
        edges = torch.stack([ids.min(), ids.max() + 1])
        start, stop = torch.searchsorted(keys[0].contiguous(), edges).tolist()
        return start, stop


def _pick(ids: Tensor, batch: Tensor, index: Tensor) -> Tensor:
    return ids[batch if ids.shape[0] > 1 else torch.zeros_like(batch), index]
