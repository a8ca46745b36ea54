"""Which entries of a tensor are wanted: an axis whole (None) or some of it; and what of the input they need."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Selection = tuple[tuple[int, ...] | None, ...]


def take(x: Tensor, chosen: Selection, lead: int = 0) -> Tensor:
    """The chosen entries of x; `lead` axes before them stay."""
    for axis, index in enumerate(chosen, lead):
        if index is not None and index != tuple(range(x.shape[axis])):
            first = index[0] if index else 0
            if index == tuple(range(first, first + len(index))):
                x = x.narrow(axis, first, len(index))
            else:
                x = x.index_select(axis, torch.tensor(index, device=x.device))
    return x


def sizes(shape: Sequence[int], chosen: Selection) -> tuple[int, ...]:
    """The shape of what is chosen."""
    return tuple(size if index is None else len(index) for size, index in zip(shape, chosen, strict=True))


def narrowed(chosen: Selection, inner: Sequence[int], outer: Sequence[int]) -> Selection:
    """What of a tensor of shape `inner`, broadcast to `outer`, the entries chosen of `outer` need."""
    skip = len(outer) - len(inner)
    return tuple(
        None if index is None else (0,) if size == 1 and outer[axis + skip] != 1 else index
        for axis, (size, index) in enumerate(zip(inner, chosen[skip:], strict=True))
    )


class Regrouped(NamedTuple):
    """A reshape backwards: what of the input is needed, and how the chosen entries are read off it.

    inner   of the input
    pieces  by group of axes: how many entries the input's part has, and which of them are chosen (None: all, in order)
    """

    inner: Selection
    pieces: list[tuple[int, tuple[int, ...] | None]]


def regroup(inner: Sequence[int], outer: Sequence[int], chosen: Selection) -> Regrouped:
    """`outer` is a reshape of `inner`; axes are compared in the smallest groups of equal size."""
    wanted: list[tuple[int, ...] | None] = [None] * len(inner)
    pieces: list[tuple[int, tuple[int, ...] | None]] = []
    for own, new in _groups(tuple(inner), tuple(outer)):
        shape_in, shape_out = [inner[a] for a in own], [outer[a] for a in new]
        if all(chosen[a] is None for a in new):
            pieces.append((math.prod(shape_in), None))
            continue
        flat = _flat(shape_out, [chosen[a] for a in new])
        sets: list[set[int]] = [set() for _ in own]
        coordinates = [_unravel(place, shape_in) for place in flat]
        for each in coordinates:
            for found, one in zip(sets, each, strict=True):
                found.add(one)
        ranked = [sorted(found) for found in sets]
        for axis, order_of in zip(own, ranked, strict=True):
            wanted[axis] = tuple(order_of)
        rank = [{value: place for place, value in enumerate(one)} for one in ranked]
        count = math.prod(len(one) for one in ranked)
        order = []
        for each in coordinates:
            place = 0
            for one, ranks in zip(each, rank, strict=True):
                place = place * len(ranks) + ranks[one]
            order.append(place)
        pieces.append((count, None if order == list(range(count)) else tuple(order)))
    return Regrouped(tuple(wanted), pieces)


def regrouped(x: Tensor, plan: Regrouped, outer: Sequence[int], chosen: Selection) -> Tensor:
    """The chosen entries of the reshaped tensor, from x (A, what plan.inner chose)."""
    x = x.reshape(x.shape[0], *(count for count, _ in plan.pieces))
    x = take(x, tuple(order for _, order in plan.pieces), 1)
    return x.reshape(x.shape[0], *sizes(outer, chosen))


def _groups(inner: tuple[int, ...], outer: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    found, a, b = [], 0, 0
    while a < len(inner) or b < len(outer):
        own, new = [], []
        left = right = 1
        while True:
            if a < len(inner) and (left <= right or b == len(outer)):
                left *= inner[a]
                own.append(a)
                a += 1
            elif b < len(outer):
                right *= outer[b]
                new.append(b)
                b += 1
            if left == right and own and new:
                break
            if a == len(inner) and b == len(outer):
                break
        found.append((own, new))
    return found


def _flat(shape: list[int], chosen: "list[tuple[int, ...] | None]") -> list[int]:
    lists = [range(size) if index is None else index for size, index in zip(shape, chosen, strict=True)]
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return [sum(i * s for i, s in zip(each, strides, strict=True)) for each in itertools.product(*lists)]


def _unravel(place: int, shape: list[int]) -> tuple[int, ...]:
    found = []
    for size in reversed(shape):
        place, one = divmod(place, size)
        found.append(one)
    return tuple(reversed(found))
