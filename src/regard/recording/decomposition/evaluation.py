"""Evaluation: the parts of a tensor by writer, or its value after an edit, for the entries that are wanted alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import rules
from .selection import Selection, narrowed, sizes, take
from .tape import Node, OperatorTape

Key = tuple[Any, int]  # what wrote: the index of a node, or a parameter's name; and the head, or -1


class WrittenParts(NamedTuple):
    """A sum taken apart: x (A, ...) and what wrote each part; in a live run x (K, ...) are K variants of the value."""

    keys: tuple[Key, ...]
    x: Tensor


class Evaluation:
    """Follows the tape backwards from what is asked for; every (tensor, selection) is computed once.

    live    False: parts by writer, factors frozen. True: values, factors computed again
    given   by node: what to take instead of following it further: selection -> WrittenParts
    """

    def __init__(
        self,
        tape: OperatorTape,
        live: bool = False,
        given: dict[Node, Callable[[Selection], WrittenParts]] | None = None,
    ):
        self.tape, self.live, self.given = tape, live, given or {}
        self.found: dict[tuple[int, Selection], WrittenParts] = {}
        self.leaves: dict[int, Node] = {}
        self.frozen: dict[str, Node] = {}
        self.silent = False  # whether writers that are not given are left out

    def parts(self, node: Node, chosen: Selection) -> WrittenParts:
        """Of the chosen entries; deep models need no deep recursion."""
        stack: list[tuple[tuple[int, Selection], Generator[Any, Any, Any]]] = []
        wanted: tuple[Node, Selection] | None = (node, chosen)
        sent: Any = None
        while True:
            if wanted is not None:
                key = (wanted[0].index, wanted[1])
                ready = self.found.get(key)
                if ready is None:
                    stack.append((key, self._rule(*wanted)))
                    sent = None
                else:
                    sent = ready
                    if not stack:
                        return ready
            key, running = stack[-1]
            try:
                wanted = running.send(sent)
            except StopIteration as done:
                made = done.value
                self.found[key] = made
                stack.pop()
                wanted, sent = None, made
                if not stack:
                    return made

    def _rule(self, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
        own = self.given.get(node)
        if own is not None:
            return _ready(own(chosen))
        if rules.linear(node):
            return rules.RULES[node.op](self, node, chosen)
        return _ready(self.leaf(node, chosen))

    def leaf(self, node: Node, chosen: Selection) -> WrittenParts:
        """What a writer gave; an attention is one writer for each head."""
        if node.value is None:
            raise RuntimeError(f"{node!r} was not kept: what it wrote is not known.")
        value = self.cast(take(node.value, chosen))
        if self.live:
            return WrittenParts((), value[None])
        if self.silent:
            return WrittenParts((), value.new_zeros((0, *value.shape)))
        self.leaves[node.index] = node
        call = node.call
        if call is None or call.split == 1:
            return WrittenParts(((node.index, 0 if call is not None else -1),), value[None])
        axis, heads = head_axis(node)
        if axis is None:
            return WrittenParts(((node.index, -1),), value[None])
        asked = chosen[axis]
        index = tuple(range(node.shape[axis])) if asked is None else asked
        which = torch.tensor([i % heads for i in index])
        made = sorted(set(which.tolist()))
        keep = which[None] == torch.tensor(made)[:, None]  # (A, size of the axis)
        keep = keep.reshape(len(made), *(len(index) if a == axis else 1 for a in range(value.ndim)))
        return WrittenParts(tuple((node.index, head) for head in made), value[None] * keep)

    # what the rules compose

    def cast(self, x: Tensor) -> Tensor:
        if x.is_complex():
            return x
        return x if x.dtype in (torch.float32, torch.float64) else x.float()

    def name(self, x: Tensor) -> str:
        return self.tape.constants.get(id(x), "constant")

    def constant(self, x: Tensor, name: str, node: Node) -> WrittenParts:
        x = self.cast(x)[None]
        if self.live:
            return WrittenParts((), x)
        if self.silent:
            return WrittenParts((), x[:0])
        return WrittenParts(((name, -1),), x)

    def mapped(self, parts: WrittenParts, f: Callable[[Tensor], Tensor]) -> WrittenParts:
        return WrittenParts(parts.keys, f(parts.x))

    def lifted(self, parts: WrittenParts, rank: int) -> WrittenParts:
        missing = rank - (parts.x.ndim - 1)
        if not missing:
            return parts
        return WrittenParts(parts.keys, parts.x.reshape(parts.x.shape[0], *(1,) * missing, *parts.x.shape[1:]))

    def widened(self, x: Tensor, node: Node, chosen: Selection) -> Tensor:
        return x.expand(x.shape[0], *sizes(node.shape, chosen))

    def total(self, terms: Sequence[tuple[Any, WrittenParts]], shape: tuple[int, ...]) -> WrittenParts:
        """The sum of sums."""
        scaled = [p.x if sign == 1 else p.x * sign for sign, p in terms]
        if self.live:
            made = scaled[0]
            for x in scaled[1:]:
                made = made + x
            return WrittenParts((), made.expand(made.shape[0], *shape))
        wide = [x.expand(x.shape[0], *shape) for x in scaled]
        keys = [key for _, p in terms for key in p.keys]
        if len(set(keys)) == len(keys):
            return WrittenParts(tuple(keys), torch.cat(wide))
        return self._merged(keys, torch.cat(wide))

    @staticmethod
    def _merged(keys: Iterable[Key], x: Tensor) -> WrittenParts:
        place: dict[Key, int] = {}
        index = torch.tensor([place.setdefault(key, len(place)) for key in keys], device=x.device)
        return WrittenParts(tuple(place), x.new_zeros((len(place), *x.shape[1:])).index_add(0, index, x))

    def joined(
        self, pieces: list[tuple[list[int], WrittenParts]], axis: int, count: int, shape: tuple[int, ...]
    ) -> WrittenParts:
        """Concatenation: each piece stands at some places of the axis, and is zero beside them."""
        if self.live:
            most = max(p.x.shape[0] for _, p in pieces)
            made = pieces[0][1].x.new_empty((most, *shape))
            for places, p in pieces:
                made.index_copy_(axis + 1, torch.tensor(places), p.x.expand(most, *p.x.shape[1:]).to(made.dtype))
            return WrittenParts((), made)
        place: dict[Key, int] = {}
        for _, p in pieces:
            for key in p.keys:
                place.setdefault(key, len(place))
        kind = next((p.x.dtype for _, p in pieces if p.keys), pieces[0][1].x.dtype)
        made = torch.zeros((len(place), *shape), dtype=kind)
        for places, p in pieces:
            if not p.keys:
                continue
            rows = torch.tensor([place[key] for key in p.keys])
            at = (rows[:, None], torch.tensor(places)[None])
            moved = made.movedim(axis + 1, 1)
            moved[at] = p.x.movedim(axis + 1, 1)
        return WrittenParts(tuple(place), made)

    def factor(self, factor: Node, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
        """One number a row that depends on the run: as it was, or as it is now."""
        inner = narrowed(chosen, factor.shape, node.shape)
        if self.live and replayable(factor):
            made = self._again(factor, inner)
            x = (yield from made).x
        else:
            self.freezes(factor)
            if factor.value is None:
                raise RuntimeError(f"{factor!r} was not kept.")
            x = self.cast(take(factor.value, inner))[None]
        return x.reshape(x.shape[0], *(1,) * (len(node.shape) + 1 - x.ndim), *x.shape[1:])

    def _again(self, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
        """A factor computed again, by the same operators on other values."""
        if node in self.given or (rules.linear(node) and node.op not in rules.REPLAYED):
            return (yield node, chosen)
        if node.op not in rules.REPLAYED:
            return self.leaf(node, chosen)
        if node.op in ("mean", "sum", "var", "linalg_vector_norm"):
            source = node.args[0]
            axes, place = _axes_of(node), 0
            keep = len(node.shape) == len(source.shape)
            inner: list[Any] = []
            for axis in range(len(source.shape)):
                if axis in axes:
                    inner.append(None)
                    place += keep
                else:
                    inner.append(chosen[place])
                    place += 1
            x = (yield from self._again(source, tuple(inner))).x
            dims = [axis + 1 for axis in axes]
            if node.op == "var":
                biased = node.kwargs.get("correction", 1)
                return WrittenParts((), x.var(dims, correction=biased, keepdim=keep))
            if node.op == "linalg_vector_norm":
                return WrittenParts(
                    (), torch.linalg.vector_norm(x, node.args[1] if len(node.args) > 1 else 2, dims, keep)
                )
            return WrittenParts((), x.mean(dims, keepdim=keep) if node.op == "mean" else x.sum(dims, keepdim=keep))
        given = []
        for arg in node.args:
            if isinstance(arg, Node):
                parts = yield from self._again(arg, narrowed(chosen, arg.shape, node.shape))
                given.append(self.lifted(parts, len(node.shape)).x)
            elif isinstance(arg, Tensor):
                given.append(self.cast(take(arg, narrowed(chosen, arg.shape, node.shape)))[None])
            else:
                given.append(arg)
        return WrittenParts((), getattr(torch, node.op)(*given, **node.kwargs))

    def freezes(self, node: Node) -> None:
        self.frozen[f"{node.index}"] = node


def _ready(parts: WrittenParts) -> Generator[Any, Any, Any]:
    return parts
    yield  # a generator that asks for nothing


def _axes_of(node: Node) -> list[int]:
    rank = len(node.args[0].shape)
    place = 2 if node.op == "linalg_vector_norm" else 1
    axes = node.args[place] if len(node.args) > place else node.kwargs.get("dim")
    axes = list(range(rank)) if axes is None or axes == [] else [axes] if isinstance(axes, int) else list(axes)
    return sorted(axis % rank for axis in axes)


def replayable(node: Node) -> bool:
    """Whether a factor leads back to the stream through operators that can run again."""
    waiting, seen = [node], set[int]()
    while waiting:
        one = waiting.pop()
        if one.index in seen or (rules.linear(one) and one.op not in rules.REPLAYED):
            continue
        seen.add(one.index)
        if one.op not in rules.REPLAYED:
            if one.value is None:
                return False
            continue
        waiting += [x for x in one.args if isinstance(x, Node)]
    return True


def head_axis(node: Node) -> tuple[int | None, int]:
    """Which axis of an attention's output are its heads (or items times heads), and how many heads there are."""
    assert node.call is not None
    heads = node.call.split
    if len(node.shape) == 4 and node.shape[1] == heads:
        return 1, heads
    if len(node.shape) == 3 and node.shape[0] % heads == 0:
        return 0, heads
    return None, heads
