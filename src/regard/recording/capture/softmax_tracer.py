"""Traces: attention that a model writes out by hand, followed from the softmax to the product with the values.

The output of a softmax is followed through casts, views, slices, masks and dropout; where it weighs something, by a
matrix product or a product and a sum, it was attention. Weights made by exp and a division, or by a sigmoid, are
followed too, and said to be missed: what normalises them is not known.

Dropout gives other weights than those that are followed. What the model does to its own after that is done to the
others as well, on copies: nothing is written into a tensor of the model's a second time.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.weak import WeakIdKeyDictionary

from .calls import WeightedCall, as_is
from .inplace import memory, version, written_by

if TYPE_CHECKING:
    from .function_mode import RecordingMode


@dataclass(eq=False)
class Trace:
    """weights: what is followed, as it was before dropout. how: softmax, or what else made it. parts: unsummed."""

    weights: Tensor
    how: str
    length: int  # of the softmax's axis
    unsummed: bool = False
    value: Tensor | None = None  # what an unsummed product was made with
    versions: tuple[int, int] = (0, 0)  # of the tensor that is followed and of `weights`, when they were made


def _both(*names: str) -> set[Any]:
    """Functions of torch, of its tensors and of torch.nn.functional by name."""
    owners = (torch, Tensor, F)
    return {getattr(owner, name) for name in names for owner in owners if hasattr(owner, name)}


SOFTMAX = _both("softmax", "_softmax") | {torch.special.softmax}
STARTS = {
    **dict.fromkeys(SOFTMAX, "softmax"),
    **dict.fromkeys(_both("exp"), "exp"),
    **dict.fromkeys(_both("sigmoid", "sigmoid_"), "sigmoid"),
}
DROPOUT = _both("dropout", "dropout_", "native_dropout", "feature_dropout")
PASSES = _both(
    "to",
    "type",
    "float",
    "half",
    "bfloat16",
    "double",
    "type_as",
    "contiguous",
    "clone",
    "view",
    "reshape",
    "flatten",
    "unflatten",
    "transpose",
    "permute",
    "squeeze",
    "unsqueeze",
    "expand",
    "expand_as",
    "masked_fill",
    "masked_fill_",
    "nan_to_num",
    "__getitem__",
    "mul",
    "__mul__",
    "__rmul__",
    "mul_",
    "__imul__",
    "div",
    "__truediv__",
    "div_",
    "where",
    "movedim",
    "swapaxes",
    "swapdims",
    "repeat_interleave",
    "narrow",
    "select",
    "index_select",
    "add",
    "__add__",
    "detach",
    "add_",
    "__iadd__",
    "__itruediv__",
    "true_divide",
)
PASSES |= {Tensor.mT.__get__, Tensor.T.__get__}  # type: ignore[attr-defined]
DIVIDES = _both("div", "__truediv__", "div_", "__itruediv__", "true_divide")
MULTIPLIES = _both("mul", "__mul__", "__rmul__", "multiply")
PRODUCTS = _both("matmul", "__matmul__", "bmm", "mm", "mv", "__rmatmul__")
EINSUM = {torch.einsum}
SUMS = _both("sum")
SETS = _both("__setitem__")
UNKNOWN = (-1, -1)  # versions that no tensors have


Turn = Callable[[Tensor], Tensor]  # the weights' own axes into (..., n, m)


class Traces:
    """What is being followed. Tensors are held weakly: what the model lets go is forgotten."""

    def __init__(self) -> None:
        self.live: Any = WeakIdKeyDictionary()

    def follow(self, mode: "RecordingMode", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        how = STARTS.get(func)
        if how is not None:
            out = func(*args, **kwargs)
            self._start(out, how, args, kwargs)
            return out
        if not len(self.live):
            return func(*args, **kwargs)
        written, found = written_by(func, args, kwargs), self._found(args)
        stale = found is not None and self._stale(args[found[0]], found[1])
        if written is not None:
            self._spare(written, func)
        if found is None:
            return func(*args, **kwargs)
        place, trace = found
        if func in PRODUCTS or func in EINSUM:
            return self._weigh(mode, func, args, kwargs, place, trace)
        if trace.unsummed:
            if func in SUMS:
                return self._sum(mode, func, args, kwargs, trace)
            return func(*args, **kwargs)
        apart = trace.weights is not args[place]
        before = written.detach().clone() if apart and written is not None and place else None
        out = func(*args, **kwargs)
        if func in SETS:
            if apart and not place:
                self._set(args, trace)
        elif isinstance(out, Tensor) and out.is_floating_point():
            self._carry(func, args, kwargs, place, trace, out, before)
            if stale and out in self.live:
                self.live[out].versions = UNKNOWN
        return out

    def _note(self, out: Tensor, trace: Trace) -> None:
        trace.versions = version(out), version(trace.weights)
        self.live[out] = trace

    def _spare(self, written: Tensor, func: Any) -> None:
        """A function is about to write: weights that lie there, and are followed elsewhere, are copied before; of what
        lies there and is followed by other weights, only the very tensor of a function that is followed stays known."""
        there = memory(written)
        if there is None:
            return
        drops, follows = func in DROPOUT, func in DROPOUT or func in PASSES or func in SETS
        for x, trace in list(self.live.items()):
            here, apart = memory(x) == there, memory(trace.weights) != there
            if not apart and (drops or not here):
                trace.weights = trace.weights.detach().clone()
                trace.versions = trace.versions[0], version(trace.weights)
            if here and (apart or drops) and not (follows and x is written):
                trace.versions = UNKNOWN

    def _set(self, args: tuple[Any, ...], trace: Trace) -> None:
        """weights[index] = value"""
        target, index, value = args
        other = self.live.get(value) if isinstance(value, Tensor) else None
        with torch.no_grad():
            weights = trace.weights.detach().clone()
            weights[index] = value if other is None else other.weights
        self._note(target, replace(trace, weights=weights))

    def _stale(self, x: Any, trace: Trace) -> bool:
        """Whether the model wrote into the weights it goes on with in a way that was not followed."""
        if not isinstance(x, Tensor) or trace.weights is x or memory(x) == memory(trace.weights):
            return False
        return trace.versions != (version(x), version(trace.weights))

    def _start(self, out: Any, how: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not isinstance(out, Tensor) or out.ndim < 2 or not out.is_floating_point():
            return
        axis = -1
        if how == "softmax":
            axis = kwargs.get("dim", args[1] if len(args) > 1 and isinstance(args[1], int) else -1)
            axis = -1 if axis is None else axis
        self._note(out, Trace(out, how, out.shape[axis]))

    def _found(self, args: tuple[Any, ...]) -> "tuple[int, Trace] | None":
        for place, x in enumerate(args):
            if isinstance(x, Tensor):
                trace = self.live.get(x)
                if trace is not None:
                    return place, trace
            elif isinstance(x, (list, tuple)):
                for y in x:
                    if isinstance(y, Tensor) and y in self.live:
                        return place, self.live[y]
        return None

    def _carry(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: int,
        trace: Trace,
        out: Tensor,
        before: Tensor | None,
    ) -> None:
        """The trace goes on where a function leaves weights weights; `before` is what it wrote them into."""
        if func in DROPOUT:
            self._note(out, Trace(trace.weights, trace.how, trace.length))
            return
        if func not in PASSES:
            return
        x = args[place]
        same = trace.weights is x
        if func in MULTIPLIES and place < 2 and len(args) > 1 and isinstance(args[1 - place], Tensor):
            other = args[1 - place]
            if x.ndim and x.shape[-1] == 1 and other.shape[-1:] != (1,):  # (..., m, 1) * (..., m, d), to be summed
                weights = trace.weights.squeeze(-1)
                self._note(out, Trace(weights, trace.how, trace.length, unsummed=True, value=other))
                return
        how = "exp and a division" if trace.how == "exp" and func in DIVIDES else trace.how
        weights = out if same else _again(func, args, kwargs, place, trace.weights, before)
        self._note(out, Trace(weights, how, trace.length))

    def _weigh(
        self, mode: "RecordingMode", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: int, trace: Trace
    ) -> Any:
        """A product: the weights' last axis meets the values' first."""
        read = _einsum(args, trace, self.live) if func in EINSUM else _product(func, args, place, trace)
        if read is None:
            return func(*args, **kwargs)
        if self._stale(_given(args, self.live), trace):
            mode.miss("softmax, dropout and a change in place")
            return func(*args, **kwargs)
        turn, value, rebuild = read
        weights = turn(trace.weights)
        if trace.how != "softmax":
            if trace.how != "exp" and not isinstance(value, torch.nn.Parameter):
                mode.miss(f"{trace.how} and a matrix product")
            return func(*args, **kwargs)
        call = _weighed(weights, mode.heads)
        call.v = value
        call.root = _given(args, self.live)
        call.canonical = lambda w: turn(w).reshape(call.weights.shape)
        call.used = call.canonical(call.root)
        call.plain = func not in EINSUM and turn is as_is and value.shape[:-2] == weights.shape[:-2]
        call.give = lambda w: func(*rebuild(w.reshape(weights.shape).to(args_dtype(args))), **kwargs)
        return mode.dispatch(call, lambda: func(*args, **kwargs))

    def _sum(
        self, mode: "RecordingMode", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], trace: Trace
    ) -> Any:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        weights = trace.weights
        axis = dim if isinstance(dim, int) else None
        if axis is None or weights.shape[-1] != trace.length or args[0].shape[axis] != trace.length:
            return func(*args, **kwargs)
        if trace.how != "softmax":
            if trace.how != "exp":
                mode.miss(f"{trace.how}, a product and a sum")
            return func(*args, **kwargs)
        if self._stale(args[0], trace):
            mode.miss("softmax, a product changed in place and a sum")
            return func(*args, **kwargs)
        call = _weighed(weights.unsqueeze(-2) if weights.ndim < 3 else weights, mode.heads)
        call.kernel = "softmax, a product and a sum"

        value = trace.value
        assert value is not None
        call.v = value
        call.give = lambda w: func(w.reshape(weights.shape).unsqueeze(-1).to(value.dtype) * value, *args[1:], **kwargs)
        return mode.dispatch(call, lambda: func(*args, **kwargs))


@torch.no_grad()
def _again(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: int, weights: Tensor, before: Tensor | None
) -> Tensor:
    """What a function makes of the weights from before dropout; all that it writes into is a copy."""
    given = [*args]
    given[place] = weights
    if "out" not in kwargs and written_by(func, args, kwargs) is not None:
        given[0] = weights.detach().clone() if before is None else before
    made: Tensor = func(*given, **{name: x for name, x in kwargs.items() if name != "out"})
    return made


def _given(args: tuple[Any, ...], live: Any) -> Tensor:
    """The followed tensor itself, after dropout."""
    flat = [x for a in args for x in (a if isinstance(a, (list, tuple)) else [a])]
    return next(x for x in flat if isinstance(x, Tensor) and x in live)


def args_dtype(args: tuple[Any, ...]) -> torch.dtype:
    flat = [x for a in args for x in (a if isinstance(a, (list, tuple)) else [a])]
    return next(x.dtype for x in flat if isinstance(x, Tensor))


def _weighed(weights: Tensor, heads: list[int]) -> WeightedCall:
    """(B, H, n, m) from what a product was given: (n, m), (B, n, m), (B H, n, m) or (..., H, n, m)."""
    if weights.ndim == 2:
        return WeightedCall(weights[None, None])
    if weights.ndim == 3:
        if heads and weights.shape[0] % heads[-1] == 0:
            return WeightedCall(weights.unflatten(0, (-1, heads[-1])))
        return WeightedCall(weights[:, None])
    return WeightedCall(weights.flatten(0, -4))


def _product(
    func: Any, args: tuple[Any, ...], place: int, trace: Trace
) -> "tuple[Turn, Tensor, Callable[[Tensor], tuple[Any, ...]]] | None":
    """w @ v with the softmax's axis last, or v @ w^T."""
    if len(args) < 2 or place > 1 or not isinstance(args[1 - place], Tensor):
        return None
    other, weights = args[1 - place], trace.weights
    swapped = getattr(func, "__name__", "") == "__rmatmul__"
    left = (place == 0) != swapped
    if weights.ndim < 2 or weights.shape != args[place].shape:
        return None
    if (left and weights.shape[-1] == trace.length) or (
        left and other.ndim > 1 and weights.shape[-1] == other.shape[-2]
    ):

        def rebuild(w: Tensor) -> tuple[Any, ...]:
            return (w, other, *args[2:]) if place == 0 else (other, w, *args[2:])

        return as_is, other, rebuild
    if not left and weights.shape[-2] == trace.length:

        def turned(w: Tensor) -> tuple[Any, ...]:
            w = w.transpose(-1, -2)
            return (other, w, *args[2:]) if place == 1 else (w, other, *args[2:])

        return (lambda x: x.transpose(-1, -2)), other, turned
    return None


def _einsum(
    args: tuple[Any, ...], trace: Trace, live: Any
) -> "tuple[Turn, Tensor, Callable[[Tensor], tuple[Any, ...]]] | None":
    """Two operands; the weights' letter of the softmax's axis is summed away, another stays."""
    if not isinstance(args[0], str):
        return None
    given = list(args[1]) if len(args) == 2 and isinstance(args[1], (list, tuple)) else list(args[1:])
    if len(given) != 2 or "." in args[0]:
        return None
    left, _, out = re.sub(r"\s", "", args[0]).partition("->")
    names = left.split(",")
    at = next((i for i, x in enumerate(given) if isinstance(x, Tensor) and x in live), None)
    if at is None or trace.weights.shape != given[at].shape:
        return None
    own, other = names[at], names[1 - at]
    summed = [c for c in own if c not in out and c in other]
    if len(summed) != 1 or given[at].shape[own.index(summed[0])] != trace.length:
        return None
    rows = [c for c in own if c in out and c not in other]
    if len(rows) != 1:
        return None
    order = [c for c in own if c not in (rows[0], summed[0])] + [rows[0], summed[0]]
    places = [own.index(c) for c in order]
    back = [places.index(i) for i in range(len(places))]

    def rebuild(w: Tensor) -> tuple[Any, ...]:
        parts = [given[1 - at]]
        parts.insert(at, w.permute(back))
        return (args[0], *parts)

    return (lambda x: x.permute(places)), given[1 - at], rebuild
