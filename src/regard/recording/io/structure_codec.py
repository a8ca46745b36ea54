"""Structures and biases as a record file has them: in closed form where there is one, packed bits where there is none.

causal    {"causal": shift}                       j <= i + shift
window    {"window": [left, right], "shift": s}   -left <= j - i - s <= right, in steps of "dilation"; on a "grid"
lengths   {"lengths": tensor}                     j < lengths[item]
mask      {"mask": tensor, "shape": [B, H, n, m]} bits of a row in order, the lowest bit of a byte first
segments  {"segments": ids, "keys": ids}          ids[i] == keys[j]
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap
from regard.core.scores import RelativeBias
from regard.core.structures import Causal, Full, Mask, Padding, Segments, Structure, Window, shift_of

from ..capture.mask_structure import _structure
from .reading import RecordFile
from .writing import Table

Form = dict[str, Any]
CLOSED = -1e30  # an additive mask this low: exp of it beside any open pair is 0 in every type


def forms_of(over: Structure, amap: AttentionMap, table: Table, name: str) -> list[Form]:
    """The parts of a structure, all of which must allow a pair."""
    n, m, made = amap.n, amap.m, []
    for place, part in enumerate(over.parts()):
        form = _form(part, n, m, table, f"{name}.over{place}")
        if form is None:  # a function of the user's, or what has no closed form: what it allows, pair by pair
            return [packed_pairs(amap, table, f"{name}.over")]
        made += form
    return made


def _form(part: Structure, n: int, m: int, table: Table, name: str) -> list[Form] | None:
    kind = type(part)
    if kind is Full:
        return []
    if isinstance(part, Causal):
        return [{"causal": shift_of(part.align, n, m, "Causal")}]
    if isinstance(part, Window):
        form: Form = {"window": [part.left, part.right], "dilation": part.dilation}
        shift = {"shift": shift_of(part.align, n, m, "Window")} if part.grid is None else {"grid": list(part.grid)}
        return [form | shift]
    if isinstance(part, Padding):
        return [{"lengths": table.add(name, part.lengths.long(), shared=True)}]
    if isinstance(part, Mask):
        keep = part.keep.reshape((1,) * (4 - part.keep.ndim) + tuple(part.keep.shape))
        return [_packed(keep.cpu().numpy(), tuple(keep.shape), table, name)]
    if isinstance(part, Segments) and part.count is None:
        keys = part.ids if part.key_ids is None else part.key_ids
        return [
            {
                "segments": table.add(name, part.ids.long(), shared=True),
                "keys": table.add(f"{name}.keys", keys.long(), shared=True),
            }
        ]
    return None


def packed_pairs(amap: AttentionMap, table: Table, name: str) -> Form:
    """What a map's structure allows, pair by pair."""
    return _packed(_allowed(amap), (*_four(amap), amap.n, amap.m), table, name)


def _four(amap: AttentionMap) -> tuple[int, int]:
    """Batch and heads of a map."""
    batch = 1
    for size in amap.lead[:-1]:
        batch *= size
    return batch, amap.heads


def _packed(keep: np.ndarray, shape: tuple[int, ...], table: Table, name: str) -> Form:
    bits = np.packbits(keep.reshape(shape), axis=-1, bitorder="little")
    return {"mask": table.add(name, bits, shared=True), "shape": list(shape)}


def _allowed(amap: AttentionMap) -> np.ndarray:
    bands = []
    step = max(1, (1 << 20) // max(1, amap.m * (amap.slab.stop - amap.slab.start)))
    for start in range(0, amap.n, step):
        rows = slice(start, min(amap.n, start + step))
        bands.append((amap.allowed(rows, slice(0, amap.m)) > 0).cpu().numpy())
    return np.concatenate(bands, -2) if bands else np.zeros((*_four(amap), 0, amap.m), bool)


def structure_from(file: RecordFile, forms: Any, n: int, m: int, batch: int, heads: int, build: bool) -> Structure:
    """The structure again; with build=False only what can be told from the header is checked."""
    if not isinstance(forms, list) or len(forms) > 16:
        file._refuse("a structure is not a list of up to 16 parts")
    over: Structure = Full()
    for form in forms:
        over = over & _part(file, form, n, m, batch, heads, build)
    return over


def _part(file: RecordFile, form: Any, n: int, m: int, batch: int, heads: int, build: bool) -> Structure:
    keys = set(form) if isinstance(form, dict) else set()
    if keys == {"causal"}:
        return Causal(_align(file, form["causal"], n, m))
    if keys in ({"window", "dilation", "shift"}, {"window", "dilation", "grid"}):
        left, right = _numbers(file, form["window"], 2)
        (dilation,) = _numbers(file, [form["dilation"]], 1)
        if "grid" in form:
            height, width = _numbers(file, form["grid"], 2)
            return Window(left, right, max(1, dilation), grid=(height, width))
        return Window(left, right, max(1, dilation), align=_align(file, form["shift"], n, m))
    if keys == {"lengths"}:
        check(file, form["lengths"], ("I64",), (batch,), (1,))
        return Padding(tensor(file, form["lengths"])) if build else Full()
    if keys == {"mask", "shape"}:
        shape = _numbers(file, form["shape"], 4)
        if any(a not in (1, b) for a, b in zip(shape, (batch, heads, n, m), strict=True)):
            file._refuse(f"a mask of shape {shape} does not fit a map of shape {[batch, heads, n, m]}")
        check(file, form["mask"], ("U8",), (*shape[:3], -(-shape[3] // 8)))
        if not build:
            return Full()
        stored = file.stored(form["mask"])
        return file.made_once(("mask", form["mask"], *shape), lambda: _unpacked(stored, shape[3]))  # layers share one
    if keys == {"segments", "keys"}:
        check(file, form["segments"], ("I64",), (batch, n), (1, n))
        check(file, form["keys"], ("I64",), (batch, m), (1, m))
        return Segments(tensor(file, form["segments"]), tensor(file, form["keys"])) if build else Full()
    return file._refuse(f"a structure has the part {str(form)[:80]}, which is none that is known")


def _unpacked(packed: np.ndarray, m: int) -> Mask:
    bits = np.unpackbits(packed, axis=-1, count=m, bitorder="little")
    return Mask(keep=torch.from_numpy(bits.view(bool)))


def _align(file: RecordFile, shift: Any, n: int, m: int) -> str:
    if type(shift) is not int or shift not in (0, m - n):
        file._refuse(f"a structure is shifted by {str(shift)[:40]}, expected 0 or {m - n}")
    return "end" if shift == m - n else "start"


def _numbers(file: RecordFile, given: Any, count: int) -> list[int]:
    if (
        not isinstance(given, list)
        or len(given) != count
        or any(type(x) is not int or not 0 <= x < 2**40 for x in given)
    ):
        file._refuse(f"{str(given)[:80]} should be {count} whole numbers")
    return given


def check(file: RecordFile, name: Any, types: tuple[str, ...], *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Refuses a tensor that is not there or has none of these types and shapes (-1 stands for any length)."""
    entry = file._entry(name)
    shape = tuple(entry["shape"])
    fits = any(len(shape) == len(s) and all(b in (-1, a) for a, b in zip(shape, s, strict=True)) for s in shapes)
    if entry["dtype"] not in types or (shapes and not fits):
        file._refuse(
            f"tensor {name!r} is {entry['dtype']} {shape}, expected {' or '.join(types)} "
            f"{' or '.join(map(str, shapes))}"
        )
    return shape


def tensor(file: RecordFile, name: str) -> Tensor:
    """A tensor where it lies in the file; a change of it stays in this process."""
    x = torch.from_numpy(file.stored(name))
    return x.view(torch.bfloat16) if file._entry(name)["dtype"] == "BF16" else x


def bias_form(
    bias: Tensor, n: int, m: int, table: Table, name: str, bias_forms: dict[Any, Any]
) -> tuple[Form, Structure]:
    """A bias (B or 1, H or 1, n or 1, m) as one number a diagonal where it is that, beside the pairs that it closes."""
    key = (bias.data_ptr(), tuple(bias.shape), bias.stride(), n, m)
    if key not in bias_forms:
        split = _diagonals(bias, n, m) if bias.shape[-2:] == (n, m) and n > 1 else None
        if split is None:
            bias_forms[key] = {"pairs": table.add(f"{name}.bias", bias, shared=True)}, Full()
        else:
            bias_forms[key] = {"diagonals": table.add(f"{name}.bias", split[0], shared=True)}, split[1]
    found: tuple[Form, Structure] = bias_forms[key]
    return found


def _diagonals(bias: Tensor, n: int, m: int) -> tuple[Tensor, Structure] | None:
    """(H or 1, n + m - 1), at j - i + n - 1, and the pairs left open; None where a diagonal holds two numbers."""
    heads = bias.shape[1]
    line = bias.new_full((heads, n + m - 1), float("-inf"))
    opened = bias > CLOSED
    if not bool(opened.any(-1).all()):
        return None  # a row without an open pair is uniform in the model's arithmetic
    for i in range(n):
        part = line[:, n - 1 - i : n - 1 - i + m]
        torch.maximum(part, bias[:, :, i].masked_fill(~opened[:, :, i], float("-inf")).amax(0), out=part)
    for i in range(n):
        if not bool(((line[:, n - 1 - i : n - 1 - i + m] == bias[:, :, i]) | ~opened[:, :, i]).all()):
            return None
    line = line.masked_fill(line == float("-inf"), 0.0)
    return line, Full() if bool(opened.all()) else _structure(opened, n, m)


def bias_of_diagonals(line: Tensor, n: int, m: int) -> RelativeBias:
    """As a modifier that looks a number up for each distance: no n x m matrix."""
    reach = max(n, m) - 1
    made = RelativeBias(1, 0, align="start")
    del made.table
    made.table = torch.nn.functional.pad(line, (reach - (n - 1), reach - (m - 1)))  # at j - i + reach
    made.reach = reach
    return made


def diagonals_of(modifier: RelativeBias, n: int, m: int) -> Tensor:
    """(H or 1, n + m - 1) of a learned relative bias, at j - i + n - 1."""
    distance = torch.arange(n + m - 1, device=modifier.table.device) - (n - 1)
    slot = (distance - shift_of(modifier.align, n, m, "RelativeBias")).clamp(-modifier.reach, modifier.reach)
    return modifier.table.detach()[:, slot + modifier.reach]
