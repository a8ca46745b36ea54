"""Bounds checks of ids that a caller passes (ends of edges, types, graphs of nodes), before memory is indexed by them.

On a CPU an id out of bounds is an error at once. A compiled or exported graph has an operator for it, so that the
values of each run are checked, and everything after it reads what the operator returned.
On a GPU reading a value would synchronise: ids are clamped there, so that nothing out of bounds is read, and a flag on
the device stores the first id out of bounds. It is read where the host synchronises anyway
(`raise_flagged`), or at once with REGARD_CHECK=1; never while a CUDA graph is captured.
"""

import os
from typing import NamedTuple

import torch
from torch import Tensor
from torch.library import Library

from ..caches.tensor_cache import cached_by_tensor
from ..torch_private import FakeTensor, without_modes

READ_AT_ONCE = {"cpu"}  # types of devices whose values are read without waiting


class IdNames(NamedTuple):
    """What an error says: argument ("edge_index"), what its columns are ("edge"), the next step, what rows name."""

    argument: str
    column: str
    advice: str
    rows: tuple[str, ...]


EDGES = IdNames(
    "Edges(edge_index)",
    "edge",
    "Sources (keys) stand in row 0 and targets (queries) in row 1, counted from 0; leave out edges that pad the list.",
    ("source", "target"),
)

_flags: dict[torch.device, Tensor] = {}  # (5,) int64: which of the names, row, column, the id, the row's size
_names_by_code: list[IdNames] = []  # indexed by flags from 1; a flag of 0 means no error
_raised = [0]


def raised() -> int:
    """Number of flags raised as errors. Part of cache keys, so that results from clamped ids are recomputed and every
    such call raises the error."""
    return _raised[0]


def ids_within(ids: Tensor, sizes: tuple[int, ...], names: IdNames) -> Tensor:
    """The ids (rows, columns), or (columns,): 0 to sizes[r] - 1 in row r. An error where they are not.

    A tensor is checked once for as long as it does not change.
    """
    if torch.compiler.is_compiling():
        return _operator(ids, sizes, [names.argument, names.column, names.advice, *names.rows])
    if isinstance(ids, FakeTensor) or ids.device.type == "meta":
        return ids
    copy = cached_by_tensor((ids,), ("ids within", sizes, names, raised()), lambda: _checked(ids, sizes, names))
    return ids if copy is None else copy


def _checked(ids: Tensor, sizes: tuple[int, ...], names: IdNames) -> Tensor | None:
    """None where the ids are within bounds as they are; else a copy that is, clamped on a GPU."""
    whole = ids if ids.dtype in (torch.int32, torch.int64) else ids.long()  # indexing needs int32 or int64
    copy = None if whole is ids else whole
    if ids.shape[-1] == 0:
        return copy
    if 0 in sizes:  # known from the shape
        row = sizes.index(0)
        raise ValueError(_sentence(names, row, None, None, 0))
    if ids.device.type in READ_AT_ONCE:
        for row, (line, size) in enumerate(zip(_lines(whole), sizes, strict=True)):
            low, high = torch.aminmax(line)
            if int(low) < 0 or int(high) >= size:
                column = int(((line < 0) | (line >= size)).nonzero()[0, 0])
                raise ValueError(_sentence(names, row, column, int(line[column]), size))
        return copy
    capturing = _capturing(ids.device)
    made = _clamped(whole.long(), sizes, _code(names), _flag(ids.device, capturing))
    if os.environ.get("REGARD_CHECK") == "1" and not capturing:
        raise_flagged(ids.device)
    return made


def _lines(ids: Tensor) -> tuple[Tensor, ...]:
    return ids.unbind() if ids.ndim == 2 else (ids,)


def _sentence(names: IdNames, row: int, column: int | None, number: int | None, size: int) -> str:
    what = names.rows[row]
    if number is None:
        return f"{names.argument} names {what}s, but there are none. {names.advice}"
    return (
        f"{names.argument} names {what} {number} ({names.column} {column}), but there are {size} {what}s, "
        f"0 to {size - 1}. {names.advice}"
    )


def _clamped(ids: Tensor, sizes: tuple[int, ...], code: int, flag: Tensor | None) -> Tensor:
    """The ids, (rows, E) or (E,), clamped. A flag that is still 0 gets the first one out of bounds, without a sync."""
    rows = [line.clamp(0, size - 1) for line, size in zip(_lines(ids), sizes, strict=True)]
    made = torch.stack(rows) if ids.ndim == 2 else rows[0]
    if flag is not None:
        flat = ids.reshape(-1)
        outside = made.reshape(-1) != flat
        first = outside.to(torch.uint8).argmax()[None]
        row, column = first // ids.shape[-1], first % ids.shape[-1]
        size = torch.full_like(row, sizes[0])
        for place, other in enumerate(sizes[1:], 1):
            size = size.masked_fill(row == place, other)
        found = torch.cat([torch.full_like(row, code), row, column, flat.gather(0, first), size])
        flag.copy_(torch.where((flag[:1] == 0) & outside.gather(0, first), found, flag))
    return made


def _code(names: IdNames) -> int:
    if names not in _names_by_code:
        _names_by_code.append(names)
    return _names_by_code.index(names) + 1


def _flag(device: torch.device, capturing: bool) -> Tensor | None:
    """None while a CUDA graph is captured before the first check: memory allocated then belongs to the graph."""
    if device not in _flags and not capturing:
        with torch.inference_mode(False):
            _flags[device] = torch.zeros(5, dtype=torch.int64, device=device)
    return _flags.get(device)


def _capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def raise_flagged(device: torch.device) -> None:
    """An error if ids on this device were out of bounds, in this call or an earlier one.

    It synchronises, so it is called where the host synchronises anyway: before rows are grouped by degree or padded
    (maps, chunked, the reference), where self-loops replace those of the caller, where graphs of a batch are counted.
    """
    if torch.compiler.is_compiling() or device not in _flags or _capturing(device):
        return
    code, row, column, number, size = _flags[device].tolist()
    if code:
        _flags[device].zero_()
        _raised[0] += 1
        raise ValueError(_sentence(_names_by_code[code - 1], row, column, number, size))


_library = Library("regard", "FRAGMENT")
_library.define("ids_within(Tensor ids, SymInt[] sizes, str[] names) -> Tensor")


def _run(ids: Tensor, sizes: list[int], names: list[str]) -> Tensor:
    """The operator's run-time implementation. Operators may not return their input, hence a copy."""
    copy = _checked(ids, tuple(sizes), IdNames(names[0], names[1], names[2], tuple(names[3:])))
    if copy is None:
        copy = ids.to(_type(ids), copy=True)
    return copy.contiguous()


def _type(ids: Tensor) -> torch.dtype:
    """int32 is kept where ids are checked; clamped ids have a dtype that fits every size."""
    return torch.int32 if ids.dtype == torch.int32 and ids.device.type in READ_AT_ONCE else torch.int64


_library.impl("ids_within", _run, "CompositeExplicitAutograd")
_operator = torch.ops.regard.ids_within.default


@torch.library.register_fake("regard::ids_within", lib=_library)
def _(ids: Tensor, sizes: list[int], names: list[str]) -> Tensor:
    if ids.device.type not in READ_AT_ONCE and (ids.device.type != "cuda" or torch.cuda.is_available()):
        with without_modes():  # a flag allocated at run time might be in the memory of a CUDA graph
            _flag(ids.device, _capturing(ids.device))
    return torch.empty(ids.shape, dtype=_type(ids), device=ids.device)
