"""Structures: who may meet whom. Row = the one attending (query), column = the attended (key). True = may be attended.

A structure is a frozen value, a predicate on pairs of indices with ranges in closed form: no n x m tensor exists
unless the user brings one (`Mask`). Structures combine with `&`. Edges live in `edges.py`.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .errors import values_are_checked
from .spec import Spec, transform
from .tiles import Tile


@dataclass(frozen=True, eq=False)
class Structure(Spec):
    """The set of pairs (i, j) that may meet."""

    is_graph = False

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> "Structure":
        """Checked against the sizes of one call, tensors brought to their canonical shape."""
        return self

    def allowed(self, tile: Tile) -> Tensor | None:
        """Bool, broadcastable to (g, r, c); None where every pair is allowed."""
        return None

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        """A range of columns outside which no row of the block may look."""
        return 0, m

    def keys(self, m: int) -> Tensor | None:
        """(batch, heads or 1, m): False where a key is closed to every query, so that it may even hold NaN."""
        return None

    def lengths_of_keys(self, m: int) -> Tensor | None:
        """(batch,) number of valid leading keys where padding is known, else None."""
        return None

    def to(self, device: torch.device | str) -> "Structure":
        """The same with its tensors on a device."""
        moved: Structure = transform(self, lambda x: x.to(device))
        return moved

    def parts(self) -> tuple["Structure", ...]:
        return (self,)

    def __and__(self, other: "Structure") -> "Structure":
        if not isinstance(other, Structure):
            raise TypeError(f"& joins two structures; the right side is {type(other).__name__}. "
                            "A boolean tensor becomes a structure by Mask(keep=...).")  # fmt: skip
        parts = tuple(p for p in (*self.parts(), *other.parts()) if not isinstance(p, Full))
        return Full() if not parts else parts[0] if len(parts) == 1 else And(parts)

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={_short(value)}" for name, value in self.fields_of() if value is not None)
        return f"{type(self).__name__}({inside})"


def _short(value: Any) -> str:
    return f"{tuple(value.shape)}" if isinstance(value, Tensor) else str(value)


@dataclass(frozen=True, eq=False)
class Full(Structure):
    """Every query may attend every key.

        (i, j) for all i, j

    What is meant where no structure is given.
    """


@dataclass(frozen=True, eq=False)
class And(Structure):
    """Pairs that every part allows; made by `a & b`."""

    members: tuple[Structure, ...]

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        if sum(part.is_graph for part in self.members) > 1:
            raise ValueError("Edges(...) & Edges(...): a row walks along one edge list. Pass the edges that both have, "
                             "or give one of the graphs as Mask(keep=adjacency).")  # fmt: skip
        return And(tuple(part.fit(lead, heads, n, m) for part in self.members))

    def allowed(self, tile: Tile) -> Tensor | None:
        keep = None
        for part in self.members:
            more = part.allowed(tile)
            keep = more if keep is None else keep if more is None else keep & more
        return keep

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        start, stop = 0, m
        for part in self.members:
            first, last = part.span(heads, slab, rows, n, m)
            start, stop = max(start, first), min(stop, last)
        return start, max(start, stop)

    def keys(self, m: int) -> Tensor | None:
        keep = None
        for part in self.members:
            more = part.keys(m)
            keep = more if keep is None else keep if more is None else keep & more
        return keep

    def to(self, device: torch.device | str) -> Structure:
        return And(tuple(part.to(device) for part in self.members))

    def lengths_of_keys(self, m: int) -> Tensor | None:
        lengths = None
        for part in self.members:
            more = part.lengths_of_keys(m)
            lengths = more if lengths is None else lengths if more is None else torch.minimum(lengths, more)
        return lengths

    def parts(self) -> tuple[Structure, ...]:
        return self.members

    def __str__(self) -> str:
        return " & ".join(str(part) for part in self.members)


def shift_of(align: str | None, n: int, m: int, who: str) -> int:
    """How far key positions run ahead of query positions: query i stands at position i + shift of the keys."""
    if align == "end":
        return m - n
    if align is None and n != m:
        raise ValueError(
            f"{who}() needs align= when queries and keys differ in number (n={n}, m={m}):\n"
            f'{who}(align="end") puts the last query at the last key (decoding with a cache);\n'
            f'{who}(align="start") puts query i at key i.'
        )
    return 0


def check_align(align: str | None, who: str) -> None:
    if align not in (None, "start", "end"):
        raise ValueError(f'{who}(align={align!r}): expected "start", "end" or None.')


@dataclass(frozen=True, eq=False)
class Causal(Structure):
    """Nobody looks ahead.

        j <= i + shift,   shift = 0 (align="start") or m - n (align="end")

    Vaswani et al. 2017.
    """

    align: str | None = None

    def __post_init__(self) -> None:
        check_align(self.align, "Causal")

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        shift_of(self.align, n, m, "Causal")
        return self

    def allowed(self, tile: Tile) -> Tensor | None:
        return tile.key <= tile.query + shift_of(self.align, tile.n, tile.m, "Causal")

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        return 0, max(0, min(m, rows.stop + shift_of(self.align, n, m, "Causal")))


@dataclass(frozen=True, eq=False)
class Window(Structure):
    """Neighbours only, in steps of dilation.

        -left * dilation <= j - i <= right * dilation

    With grid=(height, width) the positions are pixels of an image in row-major order and the window holds on both
    axes: a (left + 1 + right) x (left + 1 + right) neighbourhood, cut at the border. Beltagy et al. 2020.
    A side may be negative where the other is not smaller: Window(n, -1) sees what stands before, and not itself.
    """

    left: int
    right: int
    dilation: int = 1
    grid: tuple[int, int] | None = None
    align: str | None = None

    def __post_init__(self) -> None:
        check_align(self.align, "Window")
        fractions = any(isinstance(x, float) for x in (self.left, self.right, self.dilation))
        apart = min(self.left, self.right) < 0 and self.grid is not None
        if fractions or self.left + self.right < 0 or apart or self.dilation < 1:
            raise ValueError(f"Window(left={self.left}, right={self.right}, dilation={self.dilation}): left and right "
                             "count neighbours (whole numbers; one may be negative where the other is as large, but "
                             "not on a grid) and dilation is 1 or more.")  # fmt: skip

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        if self.grid is not None:
            if n != self.grid[0] * self.grid[1] or m != n:
                raise ValueError(f"Window(grid={self.grid}) has {self.grid[0] * self.grid[1]} pixels, but there are "
                                 f"n={n} queries and m={m} keys: both must equal height x width.")  # fmt: skip
        else:
            shift_of(self.align, n, m, "Window")
        return self

    def _near(self, distance: Tensor) -> Tensor:
        near = (distance >= -self.left * self.dilation) & (distance <= self.right * self.dilation)
        return near & (distance % self.dilation == 0) if self.dilation > 1 else near

    def allowed(self, tile: Tile) -> Tensor | None:
        if self.grid is None:
            return self._near(tile.key - tile.query - shift_of(self.align, tile.n, tile.m, "Window"))
        width = self.grid[1]
        return self._near(tile.key // width - tile.query // width) & self._near(tile.key % width - tile.query % width)

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        back, ahead = self.left * self.dilation, self.right * self.dilation
        if self.grid is not None:
            width = self.grid[1]
            start, stop = (rows.start // width - back) * width, ((rows.stop - 1) // width + ahead + 1) * width
        else:
            shift = shift_of(self.align, n, m, "Window")
            start, stop = rows.start + shift - back, rows.stop + shift + ahead
        start = min(m, max(0, start))
        return start, max(start, min(m, stop))


@dataclass(frozen=True, eq=False)
class Padding(Structure):
    """Only the first keys of an item are real; the padding may hold anything, NaN included.

        j < lengths[b] for item b

    lengths (batch,) int, whole items; a shape that broadcasts to all batch axes will do.
    """

    lengths: Tensor

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        lengths = self.lengths
        if not isinstance(lengths, Tensor) or lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise TypeError(f"Padding(lengths={_kind(lengths)}): expected an integer tensor with one length an item, "
                            "shape (batch,). A bool key mask becomes Mask(keep=mask[:, None, None, :]).")  # fmt: skip
        try:
            lengths = lengths.expand(lead).reshape(-1)
        except RuntimeError:
            raise ValueError(f"Padding(lengths) has shape {tuple(self.lengths.shape)}, expected one length for each "
                             f"item of the batch: {lead}.") from None  # fmt: skip
        if values_are_checked(lengths) and lengths.numel():
            low, high = int(lengths.min()), int(lengths.max())
            if low < 0 or high > m:
                raise ValueError(f"Padding(lengths) holds {low if low < 0 else high}, expected 0 to {m} (the number "
                                 "of keys). Lengths count valid keys from the start.")  # fmt: skip
        return Padding(lengths)

    def allowed(self, tile: Tile) -> Tensor | None:
        return tile.key < self.lengths[tile.batch]

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        if self.lengths.device.type != "cpu":
            return 0, m
        return 0, int(self.lengths[slab.start // heads : (slab.stop - 1) // heads + 1].max())

    def keys(self, m: int) -> Tensor | None:
        return (torch.arange(m, device=self.lengths.device) < self.lengths[:, None])[:, None]

    def lengths_of_keys(self, m: int) -> Tensor | None:
        return self.lengths


@dataclass(frozen=True, eq=False)
class Mask(Structure):
    """The pairs the user marks.

        keep[i, j]

    keep (..., H, n, m) bool, or what broadcasts to it; True = may be attended. A key mask is keep[:, None, None, :].
    """

    keep: Tensor

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        keep = self.keep
        if not isinstance(keep, Tensor) or keep.dtype != torch.bool:
            raise TypeError(
                f"Mask(keep={_kind(keep)}): expected a bool tensor, True = may be attended. "
                "An additive mask of 0 and -inf becomes Mask(keep=mask == 0); a mask whose True means *drop* "
                "(nn.MultiheadAttention) becomes Mask(keep=~mask)."
            )
        whole = (*lead, heads, n, m)
        sizes = (1,) * (len(whole) - keep.ndim) + tuple(keep.shape)
        if len(sizes) != len(whole) or any(a not in (1, b) for a, b in zip(sizes, whole, strict=True)):
            raise ValueError(
                f"Mask(keep) has shape {tuple(keep.shape)}, which does not broadcast to {whole} = (..., heads, n, m). "
                "A key mask (batch, m) is written keep[:, None, None, :]; a mask (batch, n, m) is keep[:, None]."
            )
        batch = 1
        for size in lead:
            batch *= size
        keep = keep.reshape(sizes)
        if any(a != 1 for a in sizes[: len(lead)]):
            keep = keep.expand(*lead, *sizes[len(lead) :])
            return Mask(keep.reshape(batch, *sizes[len(lead) :]))
        return Mask(keep.reshape(1, *sizes[len(lead) :]))

    def allowed(self, tile: Tile) -> Tensor | None:
        batch, heads, n, m = self.keep.shape
        zero = torch.zeros_like(tile.batch)
        return self.keep[
            tile.batch if batch > 1 else zero,
            tile.head if heads > 1 else zero,
            tile.query if n > 1 else torch.zeros_like(tile.query),
            tile.key if m > 1 else torch.zeros_like(tile.key),
        ]

    def keys(self, m: int) -> Tensor | None:
        return self.keep[:, :, 0].expand(-1, -1, m) if self.keep.shape[2] == 1 else None


@dataclass(frozen=True, eq=False)
class Segments(Structure):
    """Pairs of one segment: packed sequences, and pooling.

        ids[i] == key_ids[j]

    Segments(ids)              packed self-attention; ids (n,) or (batch, n), any integers >= 0
    Segments(ids, key_ids=...) packed cross-attention
    Segments(ids, count=s)     pooling: query c of s attends the keys whose id is c (empty segments give 0)
    """

    ids: Tensor
    key_ids: Tensor | None = None
    count: int | None = None

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        if self.count is not None:
            if self.key_ids is not None:
                raise ValueError("Segments(ids, key_ids, count): give key_ids (cross-attention) or count (pooling).")
            if n != self.count:
                raise ValueError(f"Segments(count={self.count}) pools into {self.count} rows, but there are n={n} "
                                 "queries: pass one query a segment.")  # fmt: skip
            keys = self._row(self.ids, "ids", lead, m)
            if values_are_checked(keys) and keys.numel() and int(keys.max()) >= self.count:
                raise ValueError(f"Segments(ids) holds {int(keys.max())}, expected 0 to {self.count - 1} (count="
                                 f"{self.count}).")  # fmt: skip
            return Segments(torch.arange(n, device=keys.device)[None], keys)
        keys = self._row(self.ids if self.key_ids is None else self.key_ids, "key_ids" if self.key_ids is not None
                         else "ids", lead, m)  # fmt: skip
        return Segments(self._row(self.ids, "ids", lead, n), keys)

    @staticmethod
    def _row(ids: Tensor, name: str, lead: tuple[int, ...], size: int) -> Tensor:
        if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.dtype == torch.bool:
            raise TypeError(f"Segments({name}={_kind(ids)}): expected an integer tensor of segment ids.")
        if ids.ndim == 0 or ids.shape[-1] != size:
            raise ValueError(f"Segments({name}) has shape {tuple(ids.shape)}, expected {size} ids in its last axis. "
                             "Cross-attention needs key_ids=, pooling needs count=.")  # fmt: skip
        if values_are_checked(ids) and ids.numel() and int(ids.min()) < 0:
            raise ValueError(f"Segments({name}) holds {int(ids.min())}, expected ids >= 0. Keys that belong nowhere "
                             "are closed by & Padding(lengths) or & Mask(keep=...).")  # fmt: skip
        if ids.ndim == 1:
            return ids[None]
        try:
            return ids.expand(*lead, size).flatten(0, -2)
        except RuntimeError:
            raise ValueError(f"Segments({name}) has shape {tuple(ids.shape)}, expected (..., {size}) with the batch "
                             f"shape {lead} or none.") from None  # fmt: skip

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


def _kind(value: Any) -> str:
    return f"{value.dtype} tensor" if isinstance(value, Tensor) else type(value).__name__


@dataclass(frozen=True, eq=False)
class Around(Structure):
    """A window about a centre that each query chose: |j - floor(centre_i)| <= reach. centre (g, n), from `Local`."""

    centre: Tensor
    reach: int
    heads: int

    def allowed(self, tile: Tile) -> Tensor | None:
        centre = self.centre[tile.batch * self.heads + tile.head, tile.query]
        return (tile.key - centre.floor()).abs() <= self.reach

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        if self.centre.device.type != "cpu":
            return 0, m
        centre = self.centre[slab, rows].floor()
        start, stop = int(centre.min()) - self.reach, int(centre.max()) + self.reach + 1
        return min(m, max(0, start)), max(0, min(m, stop))


@dataclass(frozen=True, eq=False)
class Chosen(Structure):
    """Keys drawn by a policy: selected (batch * heads, m) bool, from `Reinforced`."""

    selected: Tensor
    heads: int

    def allowed(self, tile: Tile) -> Tensor | None:
        return self.selected[tile.batch * self.heads + tile.head, tile.key]


def structure_of(over: Structure | None) -> Structure:
    if over is None:
        return Full()
    if isinstance(over, Structure):
        return over
    if isinstance(over, Tensor):
        raise TypeError(
            f"over= got a {over.dtype} tensor: a bare mask does not say what True means. "
            "Use Mask(keep=tensor) (True = may be attended), Mask(keep=~tensor) if True meant *drop*, "
            "Padding(lengths), or Edges(edge_index)."
        )
    if isinstance(over, type):
        raise TypeError(f"over= got the class {over.__name__}: pass an object, {over.__name__}(...).")
    raise TypeError(f"over= got {type(over).__name__}, expected a structure: Full(), Causal(), Window(...), "
                    "Padding(...), Mask(keep=...), Segments(...), Edges(...), joined with &.")  # fmt: skip
