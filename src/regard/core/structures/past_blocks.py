"""Blocks of keys entirely in a query's past, for compressed attention."""

from collections.abc import Hashable
from dataclasses import dataclass

from torch import Tensor

from ..arguments import whole
from ..lowering.tiles import Tile
from .structure import Structure


@dataclass(frozen=True, eq=False)
class PastBlocks(Structure):
    """Keys are blocks of tokens; a query attends blocks that end at or before it.

        (i, b) where (b + 1) block <= start + i + 1

    Also known as: causal mask of compressed blocks.
    block  tokens a block
    start  position of the first query, for decoding

    Yuan et al. 2025 (NSA). With blocks of one token it is Causal.
    """

    block: int
    start: int = 0

    def __post_init__(self) -> None:
        whole(self.block, "PastBlocks", "block")
        whole(self.start, "PastBlocks", "start", 0)

    def plan_key(self) -> Hashable | None:
        return self.block, self.start

    def allowed(self, tile: Tile) -> Tensor | None:
        return (tile.key + 1) * self.block <= tile.query + self.start + 1

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        return 0, max(0, min(m, (rows.stop + self.start) // self.block))
