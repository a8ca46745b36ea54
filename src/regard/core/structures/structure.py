"""Base class of structures, Full and And, and resolution of `over=`."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..arguments.synonyms import near, spelled
from ..lowering.kernel_forms import ALL_PAIRS, StructureForm
from ..lowering.serialization import Spec, transform
from ..lowering.tiles import Tile


@dataclass(frozen=True, eq=False)
class Structure(Spec):
    """The set of pairs (i, j) that may attend."""

    is_graph = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "plan_key" not in cls.__dict__:
            cls.plan_key = Structure.plan_key  # type: ignore[method-assign]
        if "kernel_form" not in cls.__dict__:  # a subclass may allow other pairs
            cls.kernel_form = Structure.kernel_form  # type: ignore[method-assign]

    def plan_key(self) -> Hashable | None:
        """The constants that determine the plan of a call together with the shapes; None if it depends on more, such as
        tensors. Not inherited: a subclass may add state."""
        return None

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> "Structure":
        """The structure checked against the sizes of a call, with tensors in canonical shape."""
        return self

    def kernel_form(self, n: int, m: int) -> StructureForm | None:
        """Kernel form of the structure, fitted to n queries and m keys; None without one. Not inherited. `A & B` has
        the forms of its parts."""
        return None

    def allowed(self, tile: Tile) -> Tensor | None:
        """Bool, broadcastable to (g, r, c); None where every pair is allowed."""
        return None

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        """A range of columns that contains all allowed pairs of the block of rows."""
        return 0, m

    def keys(self, m: int) -> Tensor | None:
        """(batch, heads or 1, m): False where a key is masked for every query, so that it may hold NaN."""
        return None

    def lengths_of_keys(self, m: int) -> Tensor | None:
        """(batch,) number of valid leading keys, if there is padding, else None."""
        return None

    def to(self, device: torch.device | str) -> "Structure":
        """The same with its tensors on a device."""
        moved: Structure = transform(self, lambda x: x.to(device))
        return moved

    def parts(self) -> tuple["Structure", ...]:
        return (self,)

    def __and__(self, other: "Structure") -> "Structure":
        if not isinstance(other, Structure):
            raise TypeError(
                f"& joins two structures; the right side is {type(other).__name__}. "
                "A boolean tensor becomes a structure by Mask(keep=...)."
            )
        parts = tuple(p for p in (*self.parts(), *other.parts()) if not isinstance(p, Full))
        return Full() if not parts else parts[0] if len(parts) == 1 else And(parts)

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={_short(value)}" for name, value in self.fields_of() if value is not None)
        return f"{type(self).__name__}({inside})"


def _short(value: Any) -> str:
    return f"{tuple(value.shape)}" if isinstance(value, Tensor) else str(value)


def kind_of(value: Any) -> str:
    return f"{value.dtype} tensor" if isinstance(value, Tensor) else type(value).__name__


@dataclass(frozen=True, eq=False)
class Full(Structure):
    """Every query may attend every key.

        (i, j) for all i, j

    Also known as: dense attention, bidirectional attention, no mask.

    The default.
    """

    def plan_key(self) -> Hashable | None:
        return ()

    def kernel_form(self, n: int, m: int) -> StructureForm:
        return StructureForm(ALL_PAIRS)


@dataclass(frozen=True, eq=False)
class And(Structure):
    """Intersection of structures; made by `a & b`."""

    members: tuple[Structure, ...]

    def plan_key(self) -> Hashable | None:
        keys = tuple([part.plan_key() for part in self.members])
        return None if None in keys else keys

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        if sum(part.is_graph for part in self.members) > 1:
            raise ValueError(
                "Edges(...) & Edges(...): only one edge list is supported. Pass the edges of the intersection, "
                "or one of the graphs as Mask(keep=adjacency)."
            )
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


STRUCTURE_NAMES: dict[str, Structure] = {"full": Full()}  # structures that need no argument, by name


def structure_of(over: "Structure | str | None") -> Structure:
    if over is None:
        return Full()
    if isinstance(over, Structure):
        return over
    if isinstance(over, str):
        found = STRUCTURE_NAMES.get(over)
        if found is None:
            raise _unknown(over)
        return found
    if isinstance(over, bool):
        raise TypeError(f'over= got {over}: expected a structure; is_causal=True is over="causal".')
    if isinstance(over, Tensor):
        raise TypeError(
            f"over= got a {over.dtype} tensor: a bare mask is ambiguous. "
            "Use Mask(keep=tensor) (True = may be attended), Mask(keep=~tensor) if True meant *drop*, "
            "Padding(lengths), or Edges(edge_index)."
        )
    if isinstance(over, type):
        raise TypeError(f"over= got the class {over.__name__}: pass an object, {over.__name__}(...).")
    raise TypeError(
        f"over= got {type(over).__name__}, expected a structure: Full(), Causal(), Window(...), "
        "Padding(...), Mask(keep=...), Segments(...), Edges(...), joined with &."
    )


_NEEDS = {
    "window": "Window(8), or Causal(window=1024)",
    "sliding_window": "Causal(window=1024)",
    "local": "Window(8)",
    "padding": "Padding(lengths)",
    "mask": "Mask(keep=...)",
    "segments": "Segments(ids)",
    "edges": "Edges(edge_index)",
    "graph": "Edges(edge_index)",
    "varlen": "Segments(ids)",
    "bidirectional": '"full"',
    "autoregressive": '"causal"',
}


def _unknown(name: str) -> ValueError:
    plain = spelled(name)
    if plain in _NEEDS:
        return ValueError(f"over={name!r}: write over={_NEEDS[plain]}.")
    hint = near(name, [*STRUCTURE_NAMES, *_NEEDS])
    hint = f": {hint} Expected" if hint else "; expected"
    known = ", ".join(map(repr, STRUCTURE_NAMES))
    return ValueError(
        f"over={name!r} is unknown{hint} {known}, or a structure: Window(...), Padding(...), "
        "Mask(keep=...), Segments(...), Edges(...)."
    )
