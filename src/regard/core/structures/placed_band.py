"""A band by explicit position ids: causal masks and windows for packed or paged rows."""

from dataclasses import dataclass

from torch import Tensor

from ..lowering.tiles import Tile
from .structure import Structure, kind_of


@dataclass(frozen=True, eq=False)
class PlacedBand(Structure):
    """Pairs within a band of positions: packed sequences of different lengths, sequences of a paged cache.

        -left <= p_j - p_i <= right

    query_places (n,) or (batch, n) and key_places (m,) or (batch, m), whole numbers; None: unbounded.
    """

    query_places: Tensor
    key_places: Tensor
    left: int | None = None
    right: int | None = 0

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        made = []
        for name, places, size in (("query_places", self.query_places, n), ("key_places", self.key_places, m)):
            if not isinstance(places, Tensor) or places.is_floating_point() or places.shape[-1:] != (size,):
                raise ValueError(f"PlacedBand({name}={kind_of(places)}): expected integers (..., {size}).")
            made.append(places[None] if places.ndim == 1 else places.expand(*lead, size).flatten(0, -2))
        return PlacedBand(made[0], made[1], self.left, self.right)

    def allowed(self, tile: Tile) -> Tensor | None:
        queries, keys = self.query_places, self.key_places
        zero = tile.batch * 0
        far = keys[tile.batch if keys.shape[0] > 1 else zero, tile.key]
        far = far - queries[tile.batch if queries.shape[0] > 1 else zero, tile.query]
        near = None if self.right is None else far <= self.right
        if self.left is None:
            return near
        return far >= -self.left if near is None else near & (far >= -self.left)
