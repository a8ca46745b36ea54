"""How marks go from what an operator was given to what it made, and where weights meet values."""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from .event import LATE, Line, Start
from .marks import NONE, UNKNOWN, Ledger, Marks, memory, tensors_in
from .operators import (
    ADDITIONS,
    BENDS,
    CONTRACTIONS,
    COPIES,
    CUTS,
    DISTANCES,
    DIVISIONS,
    EXPONENTIAL,
    FILLS,
    GATES,
    LOG_NORMALISE,
    MULTIPLICATIONS,
    NORMALISE,
    NORMS,
    OVERWRITES,
    POSITIVE,
    RENORMALISE,
    SCATTERS,
    SUMS,
    fuses_attention,
)

Report = Callable[[str, frozenset[Start], bool, Tensor | None], None]  # operator, starts, is it attention, weights
MOST_ORIGINS = 32  # a set of origins that grows beyond says nothing


class Rules:
    """The rules. `report` is called where weights meet values."""

    def __init__(self, report: Report, started: Callable[[Start, str, tuple[Any, ...], dict[str, Any], Any], None]):
        self.ledger, self.report, self.started = Ledger(), report, started

    def follow(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        outs = [x for x in tensors_in((out,)) if x.is_floating_point() or x.is_complex()]
        given = [*tensors_in(args), *tensors_in(kwargs.values())]
        marks = [self.marks(x) for x in given]
        if fuses_attention(name):
            start = Start(name, 0, True, Line.running())
            self.started(start, name, args, kwargs, out)
            self.report(name, frozenset({start}), True, None)
            for x in outs:
                self.ledger.put(x, Marks())
            return
        if not outs:
            return
        if outs[0] is (given[0] if given else None) and name in OVERWRITES and _whole(outs[0]):
            given, marks = given[1:], marks[1:]  # what was there before is gone
        made = self._made(name, args, kwargs, outs[0], given, marks)
        for x in outs:
            self.ledger.put(x, made)

    def marks(self, x: Tensor) -> Marks:
        found = self.ledger.get(x)
        if found is UNKNOWN:
            found = Marks(constant=isinstance(x, torch.nn.Parameter))
            self.ledger.put(x, found)
        return found

    def constants(self, tensors: Any) -> None:
        """These are a model's parameters and buffers."""
        for x in tensors:
            self.ledger.put(x, Marks(constant=True))

    def _made(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Tensor,
        given: list[Tensor],
        marks: list[Marks],
    ) -> Marks:
        if name in FILLS and (_whole(out) or not any(x is out for x in given)):
            return Marks(constant=True)
        if all(each.constant for each in marks) and name not in NORMALISE:
            return Marks(constant=True) if not marks or not any(each.weights for each in marks) else _joined(marks)
        if name in NORMALISE:
            return self._normalised(name, args, kwargs, out, given[0], marks[0])
        if name in LOG_NORMALISE:
            start = self._start(name, args, kwargs, given[0], marks[0])
            return replace(_joined(marks), logs=frozenset({start}), origin=Marks().origin)
        factors = CONTRACTIONS.get(name)
        if factors is not None:
            a, b = (args[i] if i < len(args) else None for i in factors)
            if isinstance(a, Tensor) and isinstance(b, Tensor):
                return self._contracted(name, out, a, b)
        if name in MULTIPLICATIONS and len(marks) == 2:
            return self._multiplied(name, out, given, marks)
        if name in DIVISIONS and len(marks) == 2:
            return self._divided(out, given, marks)
        if name in SUMS:
            return self._summed(name, given, marks)
        if name in NORMS:
            return replace(UNKNOWN, origin=Marks().origin, totals=marks[0].totals | {marks[0].origin})
        if name in SCATTERS:
            return self._scattered(name, marks)
        if name in ADDITIONS:
            return self._added(name, out, given, marks)
        if name in RENORMALISE:
            return replace(UNKNOWN, origin=Marks().origin, weights=marks[0].weights)
        if name.startswith("grid_sampler"):
            return Marks(sampled=True)
        if name == "_embedding_bag" and any(each.weights for each in marks):
            self._report(name, _joined(marks).weights, attention=False)
            return Marks()
        return self._carried(name, out, given, marks, args, kwargs)

    def _start(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], x: Tensor, marks: Marks) -> Start:
        axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
        axis = axis[0] if isinstance(axis, (list, tuple)) and axis else axis
        if not isinstance(axis, int) or not x.ndim:
            return Start(name, 0, not marks.constant, Line.running())
        by_column = (
            marks.columns > 1 and x.layout is torch.strided and not x.is_nested and x.stride(axis) < marks.columns
        )
        return Start(name, 0 if x.is_nested else x.shape[axis], not (marks.constant or by_column), Line.running())

    def _normalised(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor, x: Tensor, marks: Marks
    ) -> Marks:
        start = self._start(name, args, kwargs, x, marks)
        self.started(start, name, args, kwargs, out)
        return Marks(weights=frozenset({start}), positive=True, columns=0 if start.attends else marks.columns)

    def _contracted(self, name: str, out: Tensor, a: Tensor, b: Tensor) -> Marks:
        left, right = self.marks(a), self.marks(b)
        length = _contracted_length(name, a)
        products = _few(
            left.products
            | right.products
            | ({left.origin, right.origin} if not (left.constant or right.constant) else NONE)
        )
        made = Marks(totals=_few(left.totals | right.totals), products=products)
        if name in DISTANCES:
            return replace(made, scores=1 if not right.constant else 0, columns=out.shape[-1] if right.constant else 0)
        if _divides(left, right) or _divides(right, left):
            self._late(name)
        for marks, other, x in ((left, right, a), (right, left, b)):
            weights = marks.weights
            if not weights:
                continue
            if other.constant:
                if length not in {start.length for start in weights} and out.numel() == x.numel():
                    return replace(marks, origin=Marks().origin)  # heads are mixed
                self._report(name, weights, attention=False, weights=x)
                return Marks()
            if name == "convolution" and marks is left:
                return replace(marks, origin=Marks().origin)
            if other.weights and marks is left:
                self._report(name, weights, attention=True, weights=x)
                return Marks(weights=weights | other.weights)
            self._report(name, weights, attention=True, weights=x)
            return made
        if 2 in (left.scores, right.scores) and not left.constant and not right.constant:
            start = Start("a product of two activations, bent by a function", 0, True, Line.running())
            self._report(name, frozenset({start}), attention=True)
            return made
        for marks, other, ones, last in ((left, right, b, -1), (right, left, a, -2)):
            if other.constant and ones.shape[last:][:1] == (1,) and bool((ones == 1).all()):  # a sum, as a product
                return Marks(totals=_few(marks.totals | {marks.origin}), products=marks.products)
        if left.constant != right.constant:
            return Marks(columns=out.shape[-1] if right.constant and b.ndim > 1 and out.ndim else 0)
        return replace(made, scores=1)

    def _multiplied(self, name: str, out: Tensor, given: list[Tensor], marks: list[Marks]) -> Marks:
        if _divides(*marks) or _divides(*marks[::-1]):
            self._late(name)
        for (x, here), (y, other) in (
            ((given[0], marks[0]), (given[1], marks[1])),
            ((given[1], marks[1]), (given[0], marks[0])),
        ):
            if other.inverse and here.origin in other.totals:
                return self._divided(out, [x, y], [here, other])
            if (
                here.weights
                and not here.unsummed
                and not other.weights
                and _are_values(x, y, other, out, {s.length for s in here.weights})
            ):
                known = int(other.constant and not other.sampled)
                return Marks(unsummed=here.weights, weights=here.weights, columns=known, sampled=other.sampled)
        made = self._carried(name, out, given, marks)
        if any(each.constant and x.numel() > 1 for x, each in zip(given, marks, strict=True)):
            made = replace(made, scores=0)  # a layer's gain: these are features
        if (marks[0].positive or marks[1].positive) and not (marks[0].constant or marks[1].constant):
            made = replace(made, products=_few(made.products | {each.origin for each in marks if each.positive}))
        if not (marks[0].constant or marks[1].constant) and out.numel() > max(x.numel() for x in given):
            made = replace(made, scores=max(made.scores, 0))
        return made

    def _divided(self, out: Tensor, given: list[Tensor], marks: list[Marks]) -> Marks:
        top, under = marks[0], marks[1]
        if top.origin in under.totals and (top.positive or top.scores):
            shrunk = [n for n, m in zip(given[0].shape[::-1], given[1].shape[::-1], strict=False) if m == 1 < n]
            names = ", ".join(sorted({start.operator for start in top.weights})) or (
                "exp" if top.positive else "scores"
            )
            attends = (not top.weights or any(start.attends for start in top.weights)) and not top.columns
            start = Start(f"{names}, divided by its sum", shrunk[0] if shrunk else 0, attends, Line.running())
            self.started(start, "div", tuple(given), {}, out)
            return Marks(weights=frozenset({start}), positive=True)
        same = top.origin == under.origin and bool(top.products)
        if under.totals & top.products or same:
            self._late("div")
            return Marks()
        return self._carried("div", out, given, marks)

    def _late(self, name: str) -> None:
        start = Start(LATE, 0, True, Line.running())
        self._report(name, frozenset({start}), attention=True)

    def _summed(self, name: str, given: list[Tensor], marks: list[Marks]) -> Marks:
        here = marks[0]
        if here.unsummed:
            self._report(name, here.unsummed, attention=not here.columns, sampled=here.sampled)
            return Marks()
        if here.weights and name == "mean":  # over heads
            return replace(here, origin=Marks().origin)
        return Marks(totals=_few(here.totals | {here.origin}), products=here.products, scores=here.scores)

    def _scattered(self, name: str, marks: list[Marks]) -> Marks:
        source = marks[-1]
        if source.unsummed:
            self._report(name, source.unsummed, attention=not source.columns)
            return Marks()
        totals = frozenset({each.origin for each in marks if each.positive})
        return replace(_joined(marks), origin=Marks().origin, totals=_few(_joined(marks).totals | totals))

    def _added(self, name: str, out: Tensor, given: list[Tensor], marks: list[Marks]) -> Marks:
        if name.startswith("addcmul") and len(marks) == 3:
            for here, other, x in ((marks[1], marks[2], given[2]), (marks[2], marks[1], given[1])):
                if here.weights and not other.weights and x.numel() > 1:
                    self._report(name, here.weights, attention=not other.constant)
                    return Marks()
        unsummed = [each for each in marks if each.unsummed]
        if len(unsummed) > 1 and frozenset.intersection(*(each.unsummed for each in unsummed)):
            self._report(name, unsummed[0].unsummed, attention=not any(each.columns for each in unsummed))
            return unsummed[0]
        if unsummed and not all(each.unsummed or each.constant for each in marks):
            return Marks()  # a gated output, added to a residual
        made = self._carried(name, out, given, marks)
        positive = frozenset(each.origin for each in marks if each.positive)
        return (
            replace(made, positive=len(positive) == len(marks), totals=_few(made.totals | positive))
            if positive
            else made
        )

    def _carried(
        self,
        name: str,
        out: Tensor,
        given: list[Tensor],
        marks: list[Marks],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Marks:
        """Elementwise, copies, slices, and what is not known: the result is what it was made from."""
        made = _joined(marks)
        if name in EXPONENTIAL and made.logs and name != "pow":
            for start in made.logs:
                self.started(start, name, tuple(given), {}, out)
            return Marks(weights=made.logs, positive=True)
        if name in GATES and made.scores and not made.weights and _closes_below_zero(name, args, kwargs or {}):
            start = Start(f"{name.rstrip('_')} of a product", 0, True, Line.running())
            self.started(start, name, tuple(given), {}, out)
            return replace(made, weights=frozenset({start}), scores=0, positive=True, origin=Marks().origin)
        if name in ("reciprocal", "reciprocal_"):
            made = replace(made, inverse=True)
        if name in BENDS and made.scores:
            made = replace(made, scores=2)
        source = next((i for i, each in enumerate(marks) if not each.constant), 0)
        floats = [each for x, each in zip(given, marks, strict=True) if x.is_floating_point() and not each.constant]
        columns = {each.columns for each in floats}
        same = name in COPIES or memory(out)._cdata == memory(given[source])._cdata
        return replace(
            made,
            origin=marks[source].origin if same and name not in POSITIVE else Marks().origin,
            positive=made.positive if same or name not in POSITIVE else True,
            columns=_columns(name, given[source], out, columns.pop() if len(columns) == 1 else 0),
        )

    def _report(
        self,
        name: str,
        starts: frozenset[Start],
        attention: bool,
        weights: Tensor | None = None,
        sampled: bool = False,
    ) -> None:
        """Weights over places that were sampled from a map of features are attention, whatever made them."""
        self.report(name, starts, sampled or (attention and any(start.attends for start in starts)), weights)


def _joined(marks: list[Marks]) -> Marks:
    """All that is known of any of them."""
    if len(marks) == 1:
        return marks[0]
    free = [each for each in marks if not each.constant] or marks
    return Marks(
        constant=all(each.constant for each in marks),
        weights=frozenset().union(*(each.weights for each in marks)),
        unsummed=frozenset().union(*(each.unsummed for each in free)),
        logs=frozenset().union(*(each.logs for each in free)),
        positive=any(each.positive for each in free),
        scores=max((each.scores for each in free), default=0),
        columns=free[0].columns if all(each.columns == free[0].columns for each in free) else 0,
        inverse=any(each.inverse for each in free),
        sampled=any(each.sampled for each in free),
        totals=_few(frozenset().union(*(each.totals for each in free))),
        products=_few(frozenset().union(*(each.products for each in free))),
    )


def _few(origins: frozenset[int]) -> frozenset[int]:
    return origins if len(origins) <= MOST_ORIGINS else NONE


def _divides(under: Marks, top: Marks) -> bool:
    """Whether a product is multiplied by one over the sum of one of its factors."""
    return under.inverse and bool(under.totals & top.products)


def _whole(x: Tensor) -> bool:
    """Whether a tensor is all that lies in its memory."""
    return x.layout is torch.strided and x.numel() * x.element_size() == x.untyped_storage().nbytes()


def _contracted_length(name: str, a: Tensor) -> int:
    if not a.ndim or a.is_nested:
        return 0
    return int(a.shape[1] if name == "convolution" and a.ndim > 1 else a.shape[-1])


def _varies(x: Tensor, out: Tensor, lengths: set[int]) -> bool:
    """Whether it has a number for each place of an axis of one of these lengths."""
    return any(n == m and n in lengths for n, m in zip(x.shape[::-1], out.shape[::-1], strict=False))


def _are_values(weights: Tensor, other: Tensor, marks: Marks, out: Tensor, lengths: set[int]) -> bool:
    """Whether weights are multiplied by values, to be summed, and not by a mask, a gate or a number."""
    if other.numel() <= 1 or not other.is_floating_point():
        return False
    if out.numel() > weights.numel() or other.numel() > weights.numel():
        return True
    if other.numel() < out.numel() and not marks.constant and not _varies(other, out, lengths):
        return False
    return not bool(((other == 0) | (other == other.amax())).all())


def _closes_below_zero(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether it is a sigmoid or a relu: clamp is one if it starts at 0 and has no end."""
    if not name.startswith("clamp"):
        return True
    low = kwargs.get("min", args[1] if len(args) > 1 else None)
    high = kwargs.get("max", args[2] if len(args) > 2 else None)
    return not isinstance(low, Tensor) and low == 0 and high is None


def _columns(name: str, x: Tensor, out: Tensor, columns: int) -> int:
    """How many columns of a linear layer lie side by side in what was made of it: 0 where they do no more."""
    if not columns or not out.ndim or out.layout is not torch.strided or x.layout is not torch.strided:
        return 0
    if name in CUTS:
        return int(out.shape[-1])
    if x.shape != out.shape or x.stride() == out.stride():
        return columns
    inner = [i for i, n in enumerate(x.shape) if n > 1 and x.stride(i) < columns]
    outer = [i for i, n in enumerate(x.shape) if n > 1 and i not in inner]
    apart = not outer or max((out.stride(i) for i in inner), default=0) < min(out.stride(i) for i in outer)
    return prod(x.shape[i] for i in inner) if inner and apart else 0
