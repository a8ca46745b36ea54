"""torch_geometric: its convolutions weigh edges by one function, `softmax`, which is captured under every alias.

While recording, the function's `__code__` is replaced by a wrapper that reports the call, so that every module that
imported it by name runs the wrapper; and `MessagePassing` notes the edges that a layer was given and those that it
propagates along. Both are restored when the last listener stops.

Private parts: `nn.Module._call_impl` (torch 2.13), which `__call__` ends in whether compiled or not, since hooks on
each layer would have to be put on layers made later as well; `conv._alpha` (torch_geometric 2.8), where layers without
the softmax leave their weights. A function with a closure, of another version, is left alone and counted as missed.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..calls import WeightedCall
from ..function_mode import RecordingMode, active_mode, switches
from ..module_stack import as_if_in, innermost_module
from ..refcounted_context import RefcountedContext
from .edge_maps import CapturedEdgeCall, CapturedEdges
from .torch_geometric_edges import caller_graph, items_graph

_originals: dict[str, FunctionType] = {}  # the functions as they were, under our own names for them
_restorers: list[Callable[[], None]] = []


class _Stack(local):
    def __init__(self) -> None:
        self.passing: list[ConvForward] = []


_stack = _Stack()


def _restore_originals() -> None:
    while _restorers:
        _restorers.pop()()


def _install_wrappers() -> None:
    """Wrap the functions of torch_geometric; where nobody has imported it, no layer can run."""
    if "torch_geometric.nn" not in sys.modules:
        return
    from torch_geometric.nn import MessagePassing
    from torch_geometric.nn.conv import han_conv
    from torch_geometric.utils import softmax

    _replace_code("softmax", softmax, _softmax_wrapper.__code__)
    _replace_code("group", han_conv.group, _group_wrapper.__code__)
    MessagePassing._call_impl = _call_and_capture  # what __call__ goes on with, compiled or not
    _restorers.append(lambda: delattr(MessagePassing, "_call_impl"))


def _replace_code(name: str, function: FunctionType, code: Any) -> None:
    """Replace the `__code__` of a function, which every alias shares; the original stays callable by name."""
    if not isinstance(function, FunctionType) or function.__closure__:
        return  # another version, whose layers count as missed
    own = function.__code__
    first = FunctionType(own, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    first.__kwdefaults__ = function.__kwdefaults__
    _originals[name] = first
    function.__code__ = code
    _restorers.append(lambda: setattr(function, "__code__", own))


def _softmax_wrapper(src: Tensor, index: Any = None, ptr: Any = None, num_nodes: Any = None, dim: int = 0) -> Tensor:
    # This code runs with the globals of torch_geometric, so it imports what it calls.
    from regard.recording.capture.edges.torch_geometric import captured_softmax

    return captured_softmax(src, index, ptr, num_nodes, dim)


def _group_wrapper(xs: list[Tensor], q: Tensor, k_lin: nn.Module) -> Any:
    from regard.recording.capture.edges.torch_geometric import captured_group

    return captured_group(xs, q, k_lin)


class ConvForward:
    """One forward of a convolution: the edges that it was given, and those that it propagates along."""

    def __init__(self, conv: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], mode: RecordingMode):
        self.conv, self.mode = conv, mode
        try:
            self.arguments = inspect.signature(conv.forward).bind(*args, **kwargs).arguments
        except TypeError:  # forward itself will say what is wrong
            self.arguments = {}
        self.used: Any = None  # what propagate was given
        self.size: Any = None
        self.passed: dict[str, Any] = {}
        self.softmax_seen = self.captured = False
        self.taken: set[Any] = set()  # types of edges that were propagated along
        self.forced: Iterator[Tensor] | None = None  # weights that a second run of message is to take

    def on_propagate(self, conv: nn.Module, inputs: Any) -> None:
        self.used, self.size, self.passed = inputs

    def on_message(self, conv: Any, inputs: Any, out: Any) -> Any:
        """A message was made without the softmax: weights that the layer leaves in _alpha are read there."""
        return self.mode.guarded(type(conv).__name__, lambda: self._read_message(conv, inputs, out), lambda: None)

    def _read_message(self, conv: Any, inputs: Any, out: Any) -> Any:
        seen, self.softmax_seen = self.softmax_seen, False
        alpha = getattr(conv, "_alpha", None)
        if seen or self.forced is not None or not isinstance(alpha, Tensor) or self.mode.pause_depth:
            return None
        with self.mode.paused():
            graph = caller_graph(self, None, None)
        shape = None if graph is None else _shape(conv, alpha)
        if graph is None or shape is None or alpha.shape[0] != graph.edge.shape[0]:
            return None
        self.captured = True
        call = CapturedEdgeCall(
            shape[0](alpha),
            graph,
            self._rerun_message(conv, inputs[0], shape[1]),
            type(conv).__name__,
            alpha,
            shape[0],
            group=self._group(conv, inputs[0], graph),
        )
        return self.mode.dispatch(call, lambda: out)

    def _group(self, conv: Any, given: dict[str, Any], graph: CapturedEdges) -> Tensor | None:
        """Which weights sum to one together: each stands alone for FAConv; those of a relation for RGATConv."""
        if type(conv).__name__ == "FAConv":
            return torch.arange(graph.edge.shape[0], device=graph.edge.device)
        if type(conv).__name__ == "RGATConv":
            return graph.target * conv.num_relations + given["edge_type"]
        return None

    def _rerun_message(
        self, conv: Any, given: dict[str, Any], back: Callable[[Tensor], Tensor]
    ) -> Callable[[Tensor], Any]:
        name = type(conv).__name__

        def give(weights: Tensor) -> Tensor:
            alpha = back(weights)
            if name == "FAConv":
                dropped = F.dropout(alpha, conv.dropout, conv.training)
                made = given["x_j"] * (dropped * given["edge_weight"]).view(-1, 1)
            elif name == "RGATConv":  # a softmax within each relation, in the order of the relations
                self.forced = iter([alpha[given["edge_type"] == r] for r in range(conv.num_relations)])
                try:
                    made = conv.message(**given)
                finally:
                    self.forced = None
            else:
                raise RuntimeError(
                    f"{name} makes its weights by functions of its own: they can be recorded, not "
                    "replaced. torch_geometric.utils.softmax can be replaced."
                )
            conv._alpha = alpha
            return made

        return give


def _call_and_capture(conv: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """`MessagePassing._call_impl` while a listener is active."""
    mode = active_mode()

    def run() -> Any:
        return nn.Module._call_impl(conv, *args, **kwargs)

    if mode is None or getattr(conv, "calls_attend", False):  # layers of ours, whose calls of attend are captured
        return run()
    return mode.guarded(type(conv).__name__, lambda: _captured_conv(mode, conv, args, kwargs), run)


def _captured_conv(mode: RecordingMode, conv: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    passing = ConvForward(conv, args, kwargs, mode)
    hooks = [
        conv.register_propagate_forward_pre_hook(passing.on_propagate),  # type: ignore[operator]
        conv.register_edge_update_forward_pre_hook(passing.on_propagate),  # type: ignore[operator]
    ]
    if hasattr(conv, "_alpha"):
        hooks.append(conv.register_message_forward_hook(passing.on_message))  # type: ignore[operator]
    _stack.passing.append(passing)
    try:
        out = mode.run()
    finally:
        _stack.passing.remove(passing)
        for hook in hooks:
            hook.remove()
    _report_missed(passing)
    return out


def _report_missed(passing: ConvForward) -> None:
    """A layer with attention of its own of which nothing was captured counts as missed."""
    if passing.captured or passing.used is None:
        return
    own = any(name.startswith("att") for name, _ in passing.conv.named_parameters(recurse=False))
    alpha = passing.passed.get("alpha")
    own = own or isinstance(alpha, (Tensor, tuple))
    edges = passing.used.shape[-1] if isinstance(passing.used, Tensor) and not passing.used.is_sparse else 1
    if own and edges:
        with as_if_in(passing.conv):  # it has just left
            passing.mode.miss(type(passing.conv).__name__, "it makes its weights by functions of its own")


def captured_softmax(src: Tensor, index: Any, ptr: Any, num_nodes: Any, dim: int) -> Tensor:
    """torch_geometric.utils.softmax, captured."""
    passing = _stack.passing[-1] if _stack.passing else None
    if passing is not None and passing.forced is not None:
        return next(passing.forced)
    mode, original = active_mode(), _originals["softmax"]
    if mode is None:
        return original(src, index, ptr, num_nodes, dim)

    def run() -> Tensor:
        with mode.paused():
            return original(src, index, ptr, num_nodes, dim)

    return mode.guarded(
        "torch_geometric.utils.softmax",
        lambda: _read_softmax(mode, passing, src, index, ptr, num_nodes, dim),
        run,
    )


def _read_softmax(
    mode: RecordingMode, passing: ConvForward | None, src: Tensor, index: Any, ptr: Any, num_nodes: Any, dim: int
) -> Any:
    weights = mode.run()
    with mode.paused():
        owner = innermost_module()
        partial = passing is not None and hasattr(passing.conv, "_alpha") and _is_part(passing, index)
        graph = None if partial else _graph(passing, owner, src, index, ptr, num_nodes, dim)
    if partial:  # the whole is read when the message is made
        return weights
    weigher = owner if passing is None or isinstance(owner, _aggregation()) else passing.conv
    shape = None if graph is None else _shape(weigher, weights)
    if graph is None or shape is None:
        mode.miss("torch_geometric.utils.softmax", "whose edges are not those that a layer was given")
        return weights
    if passing is not None:
        passing.softmax_seen = passing.captured = True
    canonical, back = shape
    call = CapturedEdgeCall(canonical(weights), graph, back, "softmax over edges", weights, canonical)
    return mode.dispatch(call, lambda: weights)


def _is_part(passing: ConvForward, index: Any) -> bool:
    used = passing.used
    return (
        isinstance(used, Tensor)
        and isinstance(index, Tensor)
        and used.layout == torch.strided
        and (index.numel() != used.shape[1])
    )


def _graph(
    passing: "ConvForward | None", owner: Any, src: Tensor, index: Any, ptr: Any, num_nodes: Any, dim: int
) -> CapturedEdges | None:
    if (dim + src.ndim if dim < 0 else dim) != 0:
        return None
    if index is None and isinstance(ptr, Tensor) and ptr.ndim == 1:
        index = torch.repeat_interleave(torch.arange(ptr.shape[0] - 1, device=ptr.device), ptr.diff())
    if not isinstance(index, Tensor) or index.ndim != 1:
        return None
    found = None if passing is None else caller_graph(passing, index, num_nodes)
    if found is None and isinstance(owner, _aggregation()):
        found = items_graph(index, num_nodes)
    return found


def _aggregation() -> type:
    from torch_geometric.nn import Aggregation

    return Aggregation


def _shape(owner: Any, weights: Tensor) -> "tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]] | None":
    """To (H, [F,] E') and back. Without heads of its own, what a layer weighs more than once are features."""
    shape = weights.shape
    if weights.ndim == 1:
        return (lambda w: w[None]), (lambda w: w[0])
    width = shape[1:].numel()
    heads = getattr(owner, "heads", 1)
    heads = heads if isinstance(heads, int) and heads > 0 and width % heads == 0 else 1
    parts = (heads,) if width == heads else (heads, width // heads)
    if weights.ndim == 3 and shape[1] != heads:
        return None

    def canonical(w: Tensor) -> Tensor:
        return w.reshape(w.shape[0], *parts).movedim(0, -1)

    def back(w: Tensor) -> Tensor:
        return w.movedim(-1, 0).reshape(shape)

    return canonical, back


def captured_group(xs: list[Tensor], q: Tensor, k_lin: nn.Module) -> Any:
    """HANConv's attention over the types of edges: one weight a type, for all nodes of the type that attends."""
    mode, original = active_mode(), _originals["group"]
    if mode is None:
        return original(xs, q, k_lin)

    def run() -> Any:
        with mode.paused():
            return original(xs, q, k_lin)

    return mode.guarded("HANConv", lambda: _read_group(mode, xs), run)


def _read_group(mode: RecordingMode, xs: list[Tensor]) -> Any:
    out, weights = mode.run()
    if weights is None:
        return out, weights

    def give(w: Tensor) -> Any:
        w = w.reshape(-1)
        return torch.sum(w.view(len(xs), 1, -1) * torch.stack(xs), dim=0), w

    return mode.dispatch(
        WeightedCall(weights.view(1, 1, 1, -1), None, give, "softmax over types of edges"), lambda: (out, weights)
    )


@switches.append
@RefcountedContext
@contextmanager
def _layers_captured() -> Iterator[None]:
    _install_wrappers()
    try:
        yield
    finally:
        _restore_originals()
