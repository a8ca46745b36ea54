"""Where the axes of a tensor go when a function is called with it.

A flow names, for each axis of the output, the axes of the input that it is made of: () is new, (2,) is axis 2 whole or
in part, (0, 1) two axes merged. Views are asked of torch itself: on a contiguous tensor without memory the strides of
an output say which axes it is made of.
"""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from .arguments import Place, argument, tensors_out, with_tensor
from .function_table import ELEMENTWISE, REDUCTIONS, SAME_AXES, VIEWS
from .trace import Merged

Flow = tuple[tuple[int, ...], ...]
Rule = Callable[[Any, tuple[Any, ...], dict[str, Any], Place, Tensor, Any], "list[Flow] | None"]  # one for each output


def _aligned(func: Any, args: Any, kwargs: Any, place: Place, x: Tensor, out: Any) -> list[Flow] | None:
    """Elementwise, with broadcasting: axes are aligned from the last."""
    flows: list[Flow] = []
    for y in tensors_out(out):
        more = y.ndim - x.ndim
        if more < 0 or any(x.shape[i] not in (1, y.shape[i + more]) for i in range(x.ndim)):
            return None
        flows.append(tuple((i - more,) if i >= more else () for i in range(y.ndim)))
    return flows


def _in_place(func: Any, args: Any, kwargs: Any, place: Place, x: Tensor, out: Any) -> list[Flow] | None:
    """As many axes as before, in their order; lengths may change."""
    made = tensors_out(out)
    return [tuple((i,) for i in range(x.ndim))] * len(made) if all(y.ndim == x.ndim for y in made) else None


def _stacked(func: Any, args: Any, kwargs: Any, place: Place, x: Tensor, out: Any) -> list[Flow] | None:
    at = int(argument(args, kwargs, 1, "dim", default=0)) % (x.ndim + 1)
    flow: list[tuple[int, ...]] = [(i,) for i in range(x.ndim)]
    flow.insert(at, ())
    return [tuple(flow)]


def _reduced(func: Any, args: Any, kwargs: Any, place: Place, x: Tensor, out: Any) -> list[Flow] | None:
    """The axes that are left; one that is summed and kept has length one and is nothing's."""
    gone = reduced_axes(func, args, kwargs, x)
    if gone is None:
        return None
    flows: list[Flow] = []
    for y in tensors_out(out):
        if y.ndim == x.ndim:
            flows.append(tuple(() if i in gone else (i,) for i in range(x.ndim)))
        elif y.ndim == x.ndim - len(gone):
            flows.append(tuple((i,) for i in range(x.ndim) if i not in gone))
        else:
            return None
    return flows


def _extreme(func: Any, args: Any, kwargs: Any, place: Place, x: Tensor, out: Any) -> list[Flow] | None:
    """max(x, dim), or max(x, y) of elements."""
    other = argument(args, kwargs, 1, "other")
    return (_aligned if isinstance(other, Tensor) else _reduced)(func, args, kwargs, place, x, out)


def reduced_axes(func: Any, args: Any, kwargs: Any, x: Tensor) -> tuple[int, ...] | None:
    """Over which axes a sum, mean, maximum ... is taken; None where that is not said."""
    place = 2 if getattr(func, "__name__", "").lstrip("_") in ("norm", "linalg_vector_norm") else 1
    dim = argument(args, kwargs, place, "dim", "axis")
    if dim is None or isinstance(dim, bool):
        return tuple(range(x.ndim))
    given = [dim] if isinstance(dim, int) else dim
    if not isinstance(given, (list, tuple)) or not all(isinstance(i, int) for i in given):
        return None
    return tuple(sorted(i % x.ndim for i in given)) if x.ndim else ()


def _viewed(func: Any, args: Any, kwargs: Any, place: Place, x: Tensor, out: Any) -> list[Flow] | None:
    try:
        strides = _telling_strides(x)
        probe = torch.empty_strided(x.shape, strides, device="meta", dtype=x.dtype)
        made = tensors_out(with_tensor(func, args, kwargs, place, probe))
    except (RuntimeError, TypeError, NotImplementedError, IndexError, ValueError):
        return None
    real = tensors_out(out)
    if [y.shape for y in made] != [y.shape for y in real]:
        return None
    return [_by_strides(x.shape, strides, y) for y in made]


def _telling_strides(x: Tensor) -> tuple[int, ...]:
    """Contiguous; an axis of length one, whose stride torch does not mind, has a number of its own."""
    strides, step = [0] * x.ndim, 1
    for i in reversed(range(x.ndim)):
        strides[i] = step if x.shape[i] != 1 else -1
        step *= max(1, x.shape[i])
    return tuple((1 << 40) + i if stride == -1 else stride for i, stride in enumerate(strides))


def _by_strides(shape: torch.Size, strides: tuple[int, ...], y: Tensor) -> Flow:
    flow: list[tuple[int, ...]] = []
    for size, stride in zip(y.shape, y.stride(), strict=True):
        if size == 1 or stride in (0, *range(1 << 40, (1 << 40) + len(shape))):
            flow.append(())
        else:
            drawn = (i for i, s in enumerate(strides) if s < stride * size and stride < s * shape[i])
            flow.append(tuple(i for i in drawn if shape[i] > 1))
    for i, length in enumerate(shape):  # an axis of length one has a stride of its own; a view may have given it to two
        places = [at for at, stride in enumerate(y.stride()) if length == 1 and stride == (1 << 40) + i]
        if places:
            same_end = i - len(shape) + y.ndim
            flow[same_end if same_end in places else places[0]] = (i,)
    used = {i for part in flow for i in part}
    for at, (size, stride) in enumerate(zip(y.shape, y.stride(), strict=True)):
        if size == 1 and not flow[at]:  # one element of an axis that is nowhere else
            drawn_from = [i for i, s in enumerate(strides) if s == stride and shape[i] > 1 and i not in used]
            flow[at] = tuple(drawn_from[:1])
            used |= {*drawn_from[:1]}
    for i, length in enumerate(shape):  # a view made anew: an axis of length one is found again from its nearer end
        if length == 1 and i not in used:
            for at in ((i - len(shape)) if i >= len(shape) - 2 else i, i):
                if -len(flow) <= at < len(flow) and y.shape[at] == 1 and not flow[at]:
                    flow[at] = (i,)
                    break
    return tuple(flow)


def _indexed(func: Any, args: Any, kwargs: Any, place: Place, x: Tensor, out: Any) -> list[Flow] | None:
    """x[index], also where tensors or lists of numbers pick elements along some axes."""
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    if not any(isinstance(i, (Tensor, list)) for i in index):
        return _viewed(func, args, kwargs, place, x, out)
    used = sum(i.ndim if _is_bool(i) else int(i is not None and i is not Ellipsis) for i in index)
    flow: list[tuple[int, ...]] = []
    at, picked, where, apart = 0, list[int](), -1, False
    for i in index:
        if i is None:
            flow.append(())
        elif i is Ellipsis:
            flow += [(a,) for a in range(at, at + x.ndim - used)]
            at += x.ndim - used
        elif isinstance(i, slice):
            flow.append((at,))
            at += 1
        else:
            wide = i.ndim if _is_bool(i) else 1
            apart = apart or (where >= 0 and len(flow) != where)
            where = len(flow) if where < 0 else where
            picked += range(at, at + wide)
            at += wide
    flow += [(a,) for a in range(at, x.ndim)]
    more = out.ndim - len(flow)
    inner: list[tuple[int, ...]] = [tuple(picked)] if more == 1 else [()] * max(0, more)
    flow[0 if apart else where : 0 if apart else where] = inner
    return [tuple(flow)] if len(flow) == out.ndim else None


def _is_bool(i: Any) -> bool:
    return isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8)


def _repeated(func: Any, args: Any, kwargs: Any, place: Place, x: Tensor, out: Any) -> list[Flow] | None:
    more = out.ndim - x.ndim
    return [tuple((i - more,) if i >= more else () for i in range(out.ndim))] if more >= 0 else None


def _with_dim(rule: Rule) -> Rule:
    """Of a function that flattens where no axis is named."""

    def asked(func: Any, args: Any, kwargs: Any, place: Place, x: Tensor, out: Any) -> list[Flow] | None:
        named = kwargs.get("dim", kwargs.get("dims", args[2] if len(args) > 2 else None))
        return None if named is None and x.ndim > 1 else rule(func, args, kwargs, place, x, out)

    return asked


def _pointwise_convolved(func: Any, args: Any, kwargs: Any, place: Place, x: Tensor, out: Any) -> list[Flow] | None:
    """A convolution of width one mixes channels alone."""
    weight = argument(args, kwargs, 1, "weight")
    if place not in ((0,), ("input",)) or not isinstance(weight, Tensor) or weight.shape[2:].numel() != 1:
        return None
    at = x.ndim - (weight.ndim - 1)
    return [tuple(() if i == at else (i,) for i in range(x.ndim))] if out.shape[at + 1 :] == x.shape[at + 1 :] else None


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _aligned),
    **dict.fromkeys(SAME_AXES, _in_place),
    **dict.fromkeys(VIEWS, _viewed),
    **dict.fromkeys(REDUCTIONS, _reduced),
    **dict.fromkeys(("max", "min"), _extreme),
    **dict.fromkeys(("stack",), _stacked),
    **dict.fromkeys(("repeat", "tile"), _repeated),
    **dict.fromkeys(("roll", "repeat_interleave"), _with_dim(_in_place)),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _pointwise_convolved),
    "getitem": _indexed,
}


def flows(
    name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place, x: Tensor, out: Any
) -> list[Flow] | None:
    """One flow for each tensor that came out; None of a function that is not followed."""
    rule = RULES.get(name)
    return None if rule is None else rule(func, args, kwargs, place, x, out)


def followed(flow: Flow, axis: int, x: Tensor, y: Tensor) -> int | None:
    """The axis of y that is this axis of x: not merged with another one, not split."""
    made = [i for i, part in enumerate(flow) if axis in part]
    if len(made) == 1 and all(x.shape[a] == 1 for a in flow[made[0]] if a != axis):
        return made[0]
    return None


def merged_axis(flow: Flow, axis: int, x: Tensor) -> Merged | None:
    """Where this axis of x is after a view that put it together with others, in their order."""
    made = [i for i, part in enumerate(flow) if axis in part]
    part = flow[made[0]] if len(made) == 1 else ()
    if list(part) != list(range(part[0], part[-1] + 1)) if part else True:
        return None
    return Merged(made[0], x.shape[axis], prod(x.shape[a] for a in part if a > axis))


def split_axis(flow: Flow, merged: Merged, y: Tensor) -> tuple[int | None, Merged | None]:
    """The axis of y that is one which was merged, if this view splits it off; else where it is now."""
    made = [i for i, part in enumerate(flow) if part == (merged.axis,)]
    for i in made:
        step = prod(y.shape[j] for j in made if j > i)
        if y.shape[i] == merged.length and step == merged.step:
            return i, None
    return None, replace(merged, axis=made[0]) if len(made) == 1 else None
