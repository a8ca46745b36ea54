"""OperatorTape: the operations that made each tensor of one run, so that a query can be taken apart.

A TorchDispatchMode sees every operator below autograd, whatever code called it. Kept are the operators, constants
(parameters, masks, rotations) and the values of writers; every other tensor is let go as the model lets it go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from regard.core.torch_private import tree_leaves, tree_map

from ..capture.calls import Call
from ..capture.edges.edge_maps import CapturedEdgeCall
from ..capture.function_mode import listen, stop
from ..capture.module_stack import ModulePaths, Site
from ..capture.recurrences.recurrent_call import RecurrentCall
from ..missed import Missed

EDGES = (
    "it is attention over the edges of a graph, whose scores are made edge by edge. Remove edges or silence heads with "
    "regard.intervene, and see docs/graph for its judges"
)


@dataclass(eq=False)
class Node:
    """One tensor that depends on what the model was given.

    op      the operator's name without overload, such as "add"; "item" is one of several outputs
    args    its arguments; tensors that depend on the input are nodes
    value   a copy, where the node is a writer or a frozen factor
    path    of the module that ran it; layer is how many attentions ran before, less one
    call    the attention whose output this is
    """

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shape: tuple[int, ...]
    dtype: torch.dtype
    path: str = ""
    layer: int = -1
    value: Tensor | None = None
    call: AttentionCall | None = None
    index: int = 0

    def __repr__(self) -> str:
        return f"Node({self.index}: {self.op} {self.shape} at {self.path!r})"


@dataclass(eq=False)
class AttentionCall:
    """One attention that ran: its queries, keys, values and output as nodes, and the call itself."""

    site: str
    layer: int
    heads: int
    q: Node | None
    k: Node | None
    v: Node | None
    scores: Node | None  # where the model wrote its scores out
    scale: float | None = None
    cap: float | None = None
    bias: Tensor | None = None
    refused: str = ""
    out: Node | None = None
    queries: Tensor | None = None  # as they were: (B, H, n, d), (B, H_k, m, d), (B, H_k, m, d_v)
    keys: Tensor | None = None
    values: Tensor | None = None
    split: int = 0  # heads that the output holds side by side, where the call itself counts them among its items


class OperatorTape(TorchDispatchMode):
    """What one run of a model did. `with tape: model(...)`; then `calls` by site, and `node(tensor)`."""

    may_change = False  # a listener that reads alone
    supports_higher_order_operators = True  # flex_attention, checkpoint: each is one operator, a writer

    def __init__(self, model: nn.Module, rules: Any):
        super().__init__()
        self.rules = rules
        self.names = ModulePaths(model)
        self.nodes: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self.origins: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self.calls: dict[str, AttentionCall] = {}
        self.recurrent: dict[str, int] = {}  # paths of recurrences, and which call each is
        self.constants: dict[int, str] = {}  # names of parameters and buffers by id
        self.watched: list[tuple[Tensor, int]] = []
        self._count, self._counts = 0, dict[str, int]()
        self._held: list[Tensor] = []
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            self.origins[tensor] = name

    def __enter__(self) -> OperatorTape:
        super().__enter__()
        listen(self)
        return self

    def __exit__(self, *given: Any) -> None:
        stop(self)
        super().__exit__(*given)
        self.origins = WeakTensorKeyDictionary()

    def node(self, tensor: Any) -> Node | None:
        """What made a tensor; None for one that does not depend on the input."""
        if not isinstance(tensor, Tensor):
            return None
        found = self.nodes.get(tensor)
        if found is not None and found[1] < tensor._version:  # written through another view of its memory
            node = self._new("written", (), {}, tensor)
            node.value = tensor.detach().clone()
            node.path, node.layer = self.names.path() or "", len(self.calls) - 1
            self.nodes[tensor] = (node, tensor._version)
            return node
        return None if found is None else found[0]

    def source(self, tensor: Tensor, name: str) -> None:
        """A tensor that the model is given."""
        node = self._new("input", (), {}, tensor)
        node.path, node.value = name, tensor.detach().clone()
        self.nodes[tensor] = (node, tensor._version)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not hasattr(func, "_schema"):  # an operator that takes functions, such as flex_attention
            out = func(*args, **kwargs)
            self._record(func.name(), args, kwargs, out, False, None)
            return out
        name = func._schema.name.rpartition("::")[2]
        changes = func._schema.is_mutable
        before: list[Any] = []
        if changes:
            before = [self.node(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
            if any(before) and args and isinstance(args[0], Tensor) and self.node(args[0]) is not None:
                self._pin(args[0])
        first = self.node(args[0]) if changes and args and isinstance(args[0], Tensor) else None
        out = func(*args, **kwargs)
        self._record(name, args, kwargs, out, changes, first)
        return out

    def _record(self, name: str, args: Any, kwargs: Any, out: Any, changes: bool, first: Node | None) -> None:
        leaves = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        found = [node for x in leaves if (entry := self.nodes.get(x)) is not None for node in [entry[0]]]
        begins = name == "embedding"
        if not found and not begins:
            for x in leaves:
                origin = self.origins.get(x)
                if origin is not None:
                    for made in tree_leaves(out):
                        if isinstance(made, Tensor) and made is not x:
                            self.origins[made] = origin
                    break
            return
        outs = [out] if isinstance(out, Tensor) else list(out) if isinstance(out, (tuple, list)) else []
        if not any(isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex()) for x in outs):
            return
        if changes:
            self._changed(name, args, kwargs, out, first)
            return
        given = tree_map(lambda x: (self.node(x) or x) if isinstance(x, Tensor) else x, tuple(args))
        named = tree_map(lambda x: (self.node(x) or x) if isinstance(x, Tensor) else x, dict(kwargs))
        node = self._new(name, given, named, out if isinstance(out, Tensor) else outs[0])
        self._settle(node, args, kwargs, outs)
        if isinstance(out, Tensor):
            self.nodes[out] = (node, out._version)
            return
        for place, each in enumerate(outs):
            if isinstance(each, Tensor) and (each.is_floating_point() or each.is_complex()):
                item = self._new("item", (node, place), {}, each)
                self.nodes[each] = (item, each._version)
                if not self.rules.linear(node):
                    item.path, item.layer = node.path, node.layer

    def _settle(self, node: Node, args: Any, kwargs: Any, outs: list[Any]) -> None:
        """Keep what a linear operator reads: writers' values and frozen factors. Others keep their nodes alone."""
        flat = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        by_node = {id(entry[0]): x for x in flat if (entry := self.nodes.get(x)) is not None}
        if self.rules.linear(node):
            frozen = self.rules.frozen(node)
            for each in self.rules.read(node):
                if each.value is None and (each in frozen or not self.rules.passes(each)):
                    each.value = by_node[id(each)].detach().clone()
            if node.op in self.rules.KEEPS_OUTPUTS:  # the statistics of a fused normalisation
                node.path = self.names.path() or ""
                node.kwargs["outs"] = [None, *(x.detach().clone() for x in outs[1:])]
            for x in flat:
                if self.nodes.get(x) is None:
                    origin = self.origins.get(x)
                    if origin is not None:
                        self.constants[id(x)] = origin
                    self.watched.append((x, x._version))
        elif not self.rules.replays(node):
            node.args = tuple(x if isinstance(x, Node) else None for x in tree_leaves(node.args))
            node.kwargs = {}
        if node.op == "embedding":
            node.kwargs["ids"] = args[1]
            node.kwargs["weight"] = self.origins.get(args[0]) or ""
        if not self.rules.linear(node):
            node.path, node.layer = self.names.path() or "", len(self.calls) - 1

    def _changed(self, name: str, args: Any, kwargs: Any, out: Any, first: Node | None) -> None:
        """An operator that writes into its first argument: the same in its other form, or a writer by itself."""
        target = args[0] if args and isinstance(args[0], Tensor) else None
        plain = name.removesuffix("_")
        if target is None:
            return
        given = [first if first is not None else target]
        given += [(self.node(x) or x) if isinstance(x, Tensor) else x for x in args[1:]]
        node = self._new(plain, tuple(given), dict(kwargs), target)
        fits = first is not None and self.rules.linear(node) and name.endswith("_") and plain in self.rules.IN_PLACE
        if fits:
            self._settle_values(node, args)
        else:
            node.op, node.args, node.kwargs = "written", (), {}
            node.path, node.layer = self.names.path() or "", len(self.calls) - 1
        if not fits:
            node.value = target.detach().clone()
        for each in (target, out):
            if isinstance(each, Tensor):
                self.nodes[each] = (node, each._version + 1)  # autograd counts the write after this returns

    def _settle_values(self, node: Node, args: Any) -> None:
        by_node = {id(entry[0]): x for x in args[1:] if isinstance(x, Tensor) and (entry := self.nodes.get(x))}
        for each in self.rules.read(node):
            if (
                each.value is None
                and id(each) in by_node
                and (each in self.rules.frozen(node) or not self.rules.passes(each))
            ):
                each.value = by_node[id(each)].detach().clone()
        for x in args[1:]:
            if isinstance(x, Tensor) and self.nodes.get(x) is None and (origin := self.origins.get(x)):
                self.constants[id(x)] = origin

    def _pin(self, tensor: Tensor) -> None:
        """The value of a writer that is about to be written into."""
        node = self.nodes[tensor][0]
        if node.value is None and not self.rules.passes(node):
            node.value = tensor.detach().clone()

    def _new(self, op: str, args: Any, kwargs: Any, out: Tensor) -> Node:
        self._count += 1
        return Node(op, args, kwargs, tuple(out.shape), out.dtype, index=self._count)

    def _constant(self, tensor: Tensor) -> Node | None:
        """A tensor that does not depend on the input as a writer, under the name of its parameter."""
        if not isinstance(tensor, Tensor):
            return None
        node = self._new("constant", (), {}, tensor)
        node.path, node.value = self.origins.get(tensor, ""), tensor.detach().clone()
        return node

    # a listener of attention calls

    def change(self, call: Call, changed: Any) -> None:
        return None

    def on_call(self, call: Any, changed: Any, out: Any) -> None:
        path = self.names.path()
        if path is None:
            return
        count = self._counts.get(path, 0)
        self._counts[path] = count + 1
        site = str(Site(path, count))
        refused = _refusal(call)
        if isinstance(call, RecurrentCall):
            self.recurrent[path] = len(self.calls)
        q, k, v = (self.node(getattr(call, name, None)) for name in "qkv")
        if (q is None) != (k is None):  # queries (or keys) that are the same whatever the input
            q, k = (self._constant(getattr(call, name)) if x is None else x for name, x in (("q", q), ("k", k)))
        scores, weights = None, None if refused else getattr(call, "weights", None)
        if q is None and isinstance(weights, Tensor):
            scores = self.node(getattr(call, "root", None)) or self.node(weights)
        made = AttentionCall(site, len(self.calls), call.heads, q, k, v, scores, self._scale(call))
        made.cap, made.bias, made.refused = getattr(call, "cap", None), getattr(call, "bias", None), refused
        made.queries, made.keys, made.values = (
            x.detach().clone() if isinstance(x, Tensor) else None for x in (getattr(call, name, None) for name in "qkv")
        )
        made.split = _heads_of(scores, call.heads)
        node = self.node(out) if isinstance(out, Tensor) else None
        if node is not None:
            node.call, node.layer, node.path = made, made.layer, path
            node.value = out.detach().clone()
            made.out = node
        self.calls[site] = made

    @staticmethod
    def _scale(call: Any) -> float | None:
        plan = getattr(call, "plan", None)
        q = getattr(call, "q", None)
        if not isinstance(q, Tensor):
            return None
        if plan is not None:
            found = plan.score.dot_scale(plan.q)
            return None if found is None else float(found)
        return float(q.shape[-1]) ** -0.5 if call.scale is None else float(call.scale)

    def on_missed(self, missed: Missed) -> None:
        pass

    def on_other(self, other: Missed) -> None:
        pass

    def may_edit(self, module: nn.Module) -> bool:
        return True  # attention inside one fused operator could not be followed: it runs in its other form


def _heads_of(scores: Node | None, heads: int) -> int:
    """How many heads there are: scores (items x heads, n, m) often stood as (items, heads, n, m) for their softmax."""
    node = scores
    while heads == 1 and node is not None and node.args:
        if len(node.shape) == 4 and node.shape[1] > 1:
            return node.shape[1]
        node = node.args[0] if isinstance(node.args[0], Node) else None
    return heads


def _refusal(call: Any) -> str:
    """Why the score of a call is no product of a query and a key; "" where it is one."""
    if isinstance(call, RecurrentCall):
        return (
            "its map is what a recurrence implies (linear attention, a state space model, a delta rule), whose weights "
            "are products of decays and gates over all tokens between, and no softmax of queries times keys. Read "
            "them from rec.maps, and change them with regard.intervene"
        )
    if isinstance(call, CapturedEdgeCall):
        return EDGES
    plan = getattr(call, "plan", None)
    if plan is not None and plan.score.dot_scale(plan.q) is None:
        name = type(plan.score).__name__
        return (
            f"its score is {name}, and a sum over pairs of writers needs a dot product of queries and keys. "
            "regard.intervene and regard.judge take any score"
        )
    if getattr(call, "modifiers", ()):
        return (
            "a score function of flex_attention changes its scores, which is no sum over writers. regard.intervene "
            "and regard.judge take any score"
        )
    return ""
