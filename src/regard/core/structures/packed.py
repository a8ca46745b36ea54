"""Packed sequences, from torch's jagged NestedTensor or cu_seqlens, as segments of one long sequence."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import Refused, values_are_checked
from . import Causal, Full, Segments, Structure, Window, structure_of
from .packing import Packing
from .placed_band import PlacedBand


def within_sequences(over: "Structure | str | None", queries: Packing, keys: Packing) -> Structure:
    """Applies `over` within each sequence of packed rows: Full(), Causal(), Window(...) and combinations with &."""
    alike = queries is keys or queries.starts is keys.starts
    made: Structure = Segments(queries.ids) if alike else Segments(queries.ids, key_ids=keys.ids)
    for part in structure_of(over).parts():
        if type(part) is Full:
            continue
        band = isinstance(part, Causal) or (isinstance(part, Window) and part.grid is None and part.dilation == 1)
        if not band:
            raise Refused(
                f"over={part} of packed sequences: expected Full(), Causal(), Window(left, right) or these joined "
                "with &. They apply within each sequence; padding and segments are not needed."
            )
        made = made & (part if alike else _placed(part, queries, keys))
    return made


def _placed(part: Structure, queries: Packing, keys: Packing) -> PlacedBand:
    """A band between packed queries and keys of different lengths, aligned sequence by sequence."""
    assert isinstance(part, (Causal, Window))
    if part.align is None:
        who = type(part).__name__
        raise ValueError(
            f"{who}() needs align= where packed queries and keys differ in length:\n"
            f'{who}(align="end") puts the last query of a sequence at its last key;\n'
            f'{who}(align="start") puts query i at key i.'
        )
    places = queries.places
    if part.align == "end":
        places = places + (keys.lengths - queries.lengths)[queries.ids]
    if isinstance(part, Causal):
        return PlacedBand(places, keys.places, None, 0)
    return PlacedBand(places, keys.places, part.left, part.right)


@dataclass(frozen=True, eq=False)
class Unpacked:
    """A call over jagged tensors as a call over packed rows; `like` converts the output back to jagged."""

    q: Tensor
    k: Tensor
    v: Tensor
    over: Structure
    offsets: Tensor
    ragged: int

    def like(self, out: Tensor) -> Tensor:
        made: Tensor = torch.nested.nested_tensor_from_jagged(out, self.offsets, jagged_dim=self.ragged)
        return made


def unpacked(q: Any, k: Any, v: Any, over: "Structure | str | None") -> Unpacked:
    """q (B, H, j, d), or (B, j, d) without heads, jagged in j; k and v likewise, with the same number of sequences."""
    ragged = _check(q, "q")
    for name, x in (("k", k), ("v", v)):
        if _check(x, name) != ragged or x.shape[0] != q.shape[0]:
            raise ValueError(f"{name} {tuple(x.shape)} and q {tuple(q.shape)} are not jagged in the same way.")
    queries = Packing(q.offsets(), q.values().shape[-2])
    keys = queries if k.offsets() is q.offsets() else Packing(k.offsets(), k.values().shape[-2])
    if values_are_checked(q.values()) and not torch.equal(k.offsets(), v.offsets()):
        raise ValueError("k and v have sequences of different lengths: each key needs one value.")
    if keys is not queries and values_are_checked(q.values()) and torch.equal(keys.starts, queries.starts):
        keys = queries
    structure = within_sequences(over, queries, keys)
    return Unpacked(q.values(), k.values(), v.values(), structure, q.offsets(), ragged)


def _check(x: Any, name: str) -> int:
    """The jagged axis: the last but one."""
    if not isinstance(x, Tensor) or not x.is_nested or x.layout != torch.jagged:
        raise TypeError(
            f"{name} is {'a strided NestedTensor' if getattr(x, 'is_nested', False) else 'not nested'}, expected q, k "
            "and v all jagged: torch.nested.nested_tensor(list, layout=torch.jagged)."
        )
    jagged: Any = x  # not in torch's stubs: attributes of jagged tensors
    ragged = int(jagged._ragged_idx)
    if x.ndim not in (3, 4) or ragged != x.ndim - 2:
        raise ValueError(
            f"{name} is jagged in axis {ragged} of {x.ndim}, expected (B, heads, j, width) or (B, j, width), jagged in "
            f"the last axis but one: {name}.transpose(1, 2) of (B, j, heads, width)."
        )
    if jagged.lengths() is not None:
        raise ValueError(f"{name} has holes between its sequences (lengths=): pass {name}.contiguous().")
    return ragged
