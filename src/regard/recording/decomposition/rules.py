"""Linear rules: what each operator does to a sum, given which of its entries are wanted.

A rule is a generator: it yields (node, selection) for each input it reads, is sent that input as parts, and returns its
own parts. Factors that depend on the input (the scale of a normalisation) are frozen at the run's values, or computed
again where the evaluation is live. An operator without a rule is a writer: what it gives is taken as it was.
"""

from collections.abc import Callable, Generator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .selection import Selection, narrowed, regroup, regrouped, sizes, take
from .tape import Node

Rule = Callable[[Any, Node, Selection], Generator[Any, Any, Any]]
IN_PLACE = {"add", "sub", "mul", "div"}
KEEPS_OUTPUTS = {"native_layer_norm", "_fused_rms_norm"}
COPIES = {"_to_copy", "clone", "alias", "detach", "lift_fresh", "positive", "to", "contiguous", "detach_copy"}
RESHAPES = {"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "_reshape_alias", "view_copy"}
REPLAYED = {"pow", "rsqrt", "sqrt", "reciprocal", "square", "abs", "var", "linalg_vector_norm", "clamp_min", "clamp",
            "add", "mul", "mean", "sum", "div", "tanh", "sub", "maximum"}  # fmt: skip


def linear(node: Node) -> bool:
    """Whether a node is affine in what it reads, with its factors frozen."""
    if node.call is not None:
        return False
    if node.op == "item":
        return linear(node.args[0])
    test = TESTS.get(node.op)
    return node.op in RULES and (test is None or test(node))


def passes(node: Node) -> bool:
    """Whether a node's parts follow from those of its inputs: it is no writer."""
    return linear(node)


def replays(node: Node) -> bool:
    """Whether a factor that depends on the input can be computed again from other inputs."""
    return node.op in REPLAYED or node.op == "baddbmm"


def frozen(node: Node) -> list[Node]:
    """The inputs that are factors: one number a row, whose product with the rest is linear in the rest."""
    if node.op in ("mul", "div") and all(isinstance(x, Node) for x in node.args[:2]):
        return [node.args[1] if node.op == "div" or _is_factor(node.args[1], node.args[0]) else node.args[0]]
    return []


def read(node: Node) -> list[Node]:
    """The inputs of a linear node that depend on the run."""
    found: list[Node] = []
    for x in node.args:
        found += [one for one in (x if isinstance(x, (list, tuple)) else [x]) if isinstance(one, Node)]
    return found


def _is_factor(factor: Any, of: Any) -> bool:
    return (
        isinstance(factor, Node)
        and isinstance(of, Node)
        and len(of.shape) > 0
        and of.shape[-1] > 1
        and (len(factor.shape) == 0 or factor.shape[-1] == 1)
    )


def _only(*places: int) -> Callable[[Node], bool]:
    """These arguments may depend on the run, the others not."""
    return lambda node: all(place in places or not isinstance(x, Node) for place, x in enumerate(node.args))


def _product(node: Node) -> bool:
    a, b = node.args[:2]
    if isinstance(a, Node) and isinstance(b, Node):
        return a is not b and (_is_factor(b, a) or _is_factor(a, b))
    return True


def _quotient(node: Node) -> bool:
    a, b = node.args[:2]
    if isinstance(b, Node):
        return isinstance(a, Node) and a is not b and _is_factor(b, a)
    return len(node.args) < 3 and "rounding_mode" not in node.kwargs


def _norm_args(node: Node) -> bool:
    return isinstance(node.args[0], Node) and len(node.args[1]) == 1 and not isinstance(node.args[2], Node)


def _index_args(node: Node) -> bool:
    given = node.args[1]
    return (
        isinstance(node.args[0], Node)
        and sum(x is not None for x in given) == 1
        and all(x is None or (isinstance(x, Tensor) and x.ndim == 1 and x.dtype == torch.long) for x in given)
    )


def operand(ev: Any, x: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    """An argument that is broadcast to the node's shape, as parts of the node's rank."""
    if isinstance(x, Node):
        parts = yield x, narrowed(chosen, x.shape, node.shape)
        return ev.lifted(parts, len(node.shape))
    x = torch.as_tensor(x)
    return ev.lifted(ev.constant(take(x, narrowed(chosen, x.shape, node.shape)), ev.name(x), node), len(node.shape))


def _constant(x: Any, node: Node, chosen: Selection, ev: Any) -> Any:
    """A factor that does not depend on the run, of what is chosen: (1, ...) or a number."""
    if not isinstance(x, Tensor):
        return x
    x = take(x, narrowed(chosen, x.shape, node.shape))
    return ev.cast(x).reshape((1,) * (len(node.shape) - x.ndim + 1) + tuple(x.shape))


def _same(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    return (yield node.args[0], chosen)


def _sum(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    a = yield from operand(ev, node.args[0], node, chosen)
    b = yield from operand(ev, node.args[1], node, chosen)
    alpha = node.kwargs.get("alpha", node.args[2] if len(node.args) > 2 else 1)
    first, second = {"add": (1, alpha), "sub": (1, -alpha), "rsub": (-alpha, 1)}[node.op]
    return ev.total([(first, a), (second, b)], sizes(node.shape, chosen))


def _negative(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    x = yield node.args[0], chosen
    return ev.mapped(x, lambda t: -t)


def _scaled(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    a, b = node.args[:2]
    divides = node.op == "div"
    if isinstance(a, Node) and isinstance(b, Node):
        factor, rest = (b, a) if divides or _is_factor(b, a) else (a, b)
        by = yield from ev.factor(factor, node, chosen)
    else:
        rest, factor = (a, b) if isinstance(a, Node) else (b, a)
        by = _constant(factor, node, chosen, ev)
    x = yield from operand(ev, rest, node, chosen)
    return ev.mapped(x, lambda t: ev.widened(t / by if divides else t * by, node, chosen))


def _reshaped(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    plan = regroup(node.args[0].shape, node.shape, chosen)
    x = yield node.args[0], plan.inner
    return ev.mapped(x, lambda t: regrouped(t, plan, node.shape, chosen))


def _permuted(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    rank = len(node.shape)
    if node.op == "permute":
        order = [axis % rank for axis in node.args[1]]
    else:
        a, b = (axis % rank for axis in node.args[1:3]) if node.op == "transpose" else (0, rank - 1)
        order = list(range(rank))
        order[a], order[b] = order[b], order[a]
    inner: list[Any] = [None] * rank
    for new, old in enumerate(order):
        inner[old] = chosen[new]
    x = yield node.args[0], tuple(inner)
    return ev.mapped(x, lambda t: t.permute(0, *(axis + 1 for axis in order)))


def _expanded(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    x = yield from operand(ev, node.args[0], node, chosen)
    return ev.mapped(x, lambda t: ev.widened(t, node, chosen))


def _on_axis(chosen: Selection, axis: int, index: Any) -> Selection:
    return (*chosen[:axis], index, *chosen[axis + 1 :])


def _wanted(node_size: int, index: "tuple[int, ...] | None") -> "tuple[int, ...]":
    return tuple(range(node_size)) if index is None else index


def _sliced(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    source = node.args[0]
    axis = (node.args[1] if len(node.args) > 1 else 0) % len(source.shape)
    start = node.args[2] if len(node.args) > 2 and node.args[2] is not None else 0
    step = node.args[4] if len(node.args) > 4 else 1
    start = max(0, start + source.shape[axis] if start < 0 else start)
    if node.shape == source.shape:
        return (yield source, chosen)
    index = tuple(start + step * i for i in _wanted(node.shape[axis], chosen[axis]))
    return (yield source, _on_axis(chosen, axis, index))


def _selected(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    source = node.args[0]
    axis, place = node.args[1] % len(source.shape), node.args[2] % source.shape[node.args[1] % len(source.shape)]
    x = yield source, (*chosen[:axis], (place,), *chosen[axis:])
    return ev.mapped(x, lambda t: t.squeeze(axis + 1))


def _item(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    parent, place = node.args
    if parent.op in KEEPS_OUTPUTS:
        return (yield parent, chosen)
    source = parent.args[0]
    rank = len(source.shape)
    if parent.op == "unbind":
        axis = (parent.args[1] if len(parent.args) > 1 else 0) % rank
        x = yield source, (*chosen[:axis], (place,), *chosen[axis:])
        return ev.mapped(x, lambda t: t.squeeze(axis + 1))
    axis = (parent.args[2] if len(parent.args) > 2 else parent.kwargs.get("dim", 0)) % rank
    given = parent.args[1]
    if isinstance(given, (list, tuple)):
        start = sum(given[:place])
    else:
        size = given if parent.op == "split" else -(-source.shape[axis] // given)
        start = size * place
    index = tuple(start + i for i in _wanted(node.shape[axis], chosen[axis]))
    return (yield source, _on_axis(chosen, axis, index))


def _joined(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    rank = len(node.shape)
    axis = (node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)) % rank
    wanted = _wanted(node.shape[axis], chosen[axis])
    made, start = [], 0
    for piece in node.args[0]:
        shape = tuple(piece.shape)
        if len(shape) != rank:  # an empty tensor of one axis, which torch.cat lets pass
            continue
        size = shape[axis]
        inside = [place for place, i in enumerate(wanted) if start <= i < start + size]
        index = tuple(wanted[place] - start for place in inside)
        start += size
        if not inside:
            continue
        own = _on_axis(chosen, axis, index)
        if isinstance(piece, Node):
            parts = yield piece, own
        else:
            parts = ev.constant(take(piece, own), ev.name(piece), node)
        made.append((inside, parts))
    return ev.joined(made, axis, len(wanted), sizes(node.shape, chosen))


def _stacked(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    rank = len(node.shape)
    axis = (node.args[1] if len(node.args) > 1 else 0) % rank
    wanted, inner = _wanted(node.shape[axis], chosen[axis]), (*chosen[:axis], *chosen[axis + 1 :])
    made = []
    for place, i in enumerate(wanted):
        piece = node.args[0][i]
        parts = (
            (yield piece, inner) if isinstance(piece, Node) else ev.constant(take(piece, inner), ev.name(piece), node)
        )
        made.append(([place], ev.mapped(parts, lambda t: t.unsqueeze(axis + 1))))
    return ev.joined(made, axis, len(wanted), sizes(node.shape, chosen))


def _matrix_product(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    """x (..., r, c) @ W (..., c, o), the constant on either side."""
    a, b = node.args[:2]
    batch, rows, cols = chosen[:-2], chosen[-2], chosen[-1]
    if isinstance(a, Node):
        x = yield a, (*batch, rows, None)
        w = ev.cast(take(b, (*batch, None, cols)))
        return ev.mapped(x, lambda t: t @ w)
    x = yield b, (*batch, None, cols)
    w = ev.cast(take(a, (*batch, rows, None)))
    return ev.mapped(x, lambda t: w @ t)


def _affine(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    bias, x, w = node.args[:3]
    parts = yield x, (chosen[0], None)
    w = ev.cast(take(w, (None, chosen[1])))
    made = ev.mapped(parts, lambda t: t @ w)
    beside = yield from operand(ev, bias, node, chosen)
    return ev.total([(1, made), (1, beside)], sizes(node.shape, chosen))


def _linear(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    x, w = node.args[:2]
    parts = yield x, (*chosen[:-1], None)
    w = ev.cast(take(w, (chosen[-1], None)))
    made = ev.mapped(parts, lambda t: t @ w.mT)
    if len(node.args) < 3 or node.args[2] is None:
        return made
    beside = yield from operand(ev, node.args[2], node, chosen)
    return ev.total([(1, made), (1, beside)], sizes(node.shape, chosen))


def _layer_norm(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    """(x - mean) rstd w + b, rstd frozen or computed again."""
    x, _, weight, bias, eps = node.args[:5]
    parts = yield x, (*chosen[:-1], None)
    if ev.live:
        parts = ev.mapped(parts, lambda t: F.layer_norm(t, t.shape[-1:], eps=eps))
    else:
        rstd = ev.cast(take(node.kwargs["outs"][2], (*chosen[:-1], None)))
        ev.freezes(node)
        parts = ev.mapped(parts, lambda t: (t - t.mean(-1, keepdim=True)) * rstd)
    return (yield from _weighted(ev, node, parts, weight, bias, chosen))


def _rms_norm(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    x, _, weight, eps = node.args[:4]
    parts = yield x, (*chosen[:-1], None)
    if ev.live:
        eps = torch.finfo(x.dtype).eps if eps is None else eps
        parts = ev.mapped(parts, lambda t: t * (t.square().mean(-1, keepdim=True) + eps).rsqrt())
    else:
        rstd = ev.cast(take(node.kwargs["outs"][1], (*chosen[:-1], None)))
        ev.freezes(node)
        parts = ev.mapped(parts, lambda t: t * rstd)
    return (yield from _weighted(ev, node, parts, weight, None, chosen))


def _weighted(ev: Any, node: Node, parts: Any, weight: Any, bias: Any, chosen: Selection) -> Generator[Any, Any, Any]:
    last = chosen[-1]
    if weight is not None:
        w = ev.cast(weight)
        parts = ev.mapped(parts, lambda t: t * w)
    if last is not None:
        parts = ev.mapped(parts, lambda t: take(t, (*(None,) * (t.ndim - 2), last), 1))
    if bias is None:
        return parts
    beside = yield from operand(ev, bias, node, chosen)
    return ev.total([(1, parts), (1, beside)], sizes(node.shape, chosen))


def _reduced(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    source = node.args[0]
    rank = len(source.shape)
    axes = node.args[1] if len(node.args) > 1 else None
    axes = list(range(rank)) if axes is None or axes == [] else [axes] if isinstance(axes, int) else list(axes)
    axes = sorted(axis % rank for axis in axes)
    keep = bool(node.args[2]) if len(node.args) > 2 else bool(node.kwargs.get("keepdim", False))
    inner: list[Any] = []
    place = 0
    for axis in range(rank):
        if axis in axes:
            inner.append(None)
            place += keep
        else:
            inner.append(chosen[place])
            place += 1
    x = yield source, tuple(inner)
    dims = [axis + 1 for axis in axes]
    if node.op == "mean":
        return ev.mapped(x, lambda t: t.mean(dims, keepdim=keep))
    return ev.mapped(x, lambda t: t.sum(dims, keepdim=keep))


def _where(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    """A mask chooses between two sums."""
    if node.op == "masked_fill":
        mask, yes, no = node.args[1], node.args[2], node.args[0]
    else:
        mask, yes, no = node.args
    a = yield from operand(ev, yes, node, chosen)
    b = yield from operand(ev, no, node, chosen)
    keep = take(mask, narrowed(chosen, mask.shape, node.shape))
    keep = keep.reshape((1,) * (len(node.shape) - keep.ndim + 1) + tuple(keep.shape))
    a = ev.mapped(a, lambda t: torch.where(keep, t, 0.0))
    b = ev.mapped(b, lambda t: torch.where(keep, 0.0, t))
    return ev.total([(1, a), (1, b)], sizes(node.shape, chosen))


def _indexed(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    if node.op == "index_select":
        axis, index = node.args[1] % len(node.shape), node.args[2]
    else:
        axis = next(place for place, x in enumerate(node.args[1]) if x is not None)
        index = node.args[1][axis]
    places = index.tolist()
    size = node.args[0].shape[axis]
    found = tuple(places[i] % size for i in _wanted(node.shape[axis], chosen[axis]))
    return (yield node.args[0], _on_axis(chosen, axis, found))


def _rolled(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    made = list(chosen)
    if node.op == "flip":
        for axis in node.args[1]:
            size = node.shape[axis]
            made[axis] = tuple(size - 1 - i for i in _wanted(size, chosen[axis]))
    else:
        for shift, axis in zip(node.args[1], node.args[2], strict=True):
            size = node.shape[axis]
            made[axis] = tuple((i - shift) % size for i in _wanted(size, made[axis]))
    return (yield node.args[0], tuple(made))


def _complex(ev: Any, node: Node, chosen: Selection) -> Generator[Any, Any, Any]:
    if node.op == "view_as_complex":
        x = yield node.args[0], (*chosen, None)
        return ev.mapped(x, lambda t: torch.view_as_complex(t.contiguous()))
    x = yield node.args[0], chosen[:-1]
    return ev.mapped(x, lambda t: take(torch.view_as_real(t), chosen, 1) if chosen[-1] else torch.view_as_real(t))


RULES: dict[str, Rule] = {
    **dict.fromkeys(COPIES, _same),
    **dict.fromkeys(RESHAPES, _reshaped),
    **dict.fromkeys(("add", "sub", "rsub"), _sum),
    **dict.fromkeys(("mul", "div"), _scaled),
    **dict.fromkeys(("permute", "transpose", "t"), _permuted),
    **dict.fromkeys(("mm", "bmm"), _matrix_product),
    **dict.fromkeys(("mean", "sum"), _reduced),
    **dict.fromkeys(("where", "masked_fill"), _where),
    **dict.fromkeys(("index", "index_select"), _indexed),
    **dict.fromkeys(("roll", "flip"), _rolled),
    **dict.fromkeys(("view_as_complex", "view_as_real"), _complex),
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unbind"), _same),  # read by their items
    "item": _item,
    "neg": _negative,
    "expand": _expanded,
    "slice": _sliced,
    "select": _selected,
    "cat": _joined,
    "stack": _stacked,
    "addmm": _affine,
    "linear": _linear,
    "native_layer_norm": _layer_norm,
    "_fused_rms_norm": _rms_norm,
}


def _not_a_power(node: Node) -> bool:
    """A mean of squares is a factor, not a sum of what was written."""
    return not (isinstance(node.args[0], Node) and node.args[0].op in ("pow", "square", "abs"))


TESTS: dict[str, Callable[[Node], bool]] = {
    "mean": _not_a_power,
    "sum": _not_a_power,
    "mul": _product,
    "div": _quotient,
    "mm": lambda node: sum(isinstance(x, Node) for x in node.args) == 1,
    "bmm": lambda node: sum(isinstance(x, Node) for x in node.args) == 1,
    "addmm": lambda node: isinstance(node.args[1], Node) and not isinstance(node.args[2], Node) and not node.kwargs,
    "linear": _only(0),
    "native_layer_norm": _norm_args,
    "_fused_rms_norm": _norm_args,
    "where": lambda node: len(node.args) == 3 and not isinstance(node.args[0], Node),
    "masked_fill": lambda node: not isinstance(node.args[1], Node),
    "index": _index_args,
    "index_select": _only(0),
    "roll": lambda node: len(node.args) > 2 and len(node.args[1]) == len(node.args[2]),
    "view": lambda node: isinstance(node.args[0], Node) and not isinstance(node.args[1], torch.dtype),
}
