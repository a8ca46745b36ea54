"""torch_geometric: its convolutions weigh edges by one function, `softmax`, which is heard under every name it has.

While something listens, the code of that function is another, which runs the first and tells; and MessagePassing notes
the edges that a layer was given and those that it propagates along. Both are put back when the last listener stops.
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

from .calls import Weighed
from .edge_maps import CapturedEdges, Edged
from .function_mode import RecordingMode, switches, watching
from .module_stack import modules_running
from .refcounted_context import Switch
from .torch_geometric_edges import caller_graph, items_graph

_first: dict[str, FunctionType] = {}  # what ran before, under our own names for it
_put_back: list[Callable[[], None]] = []


class _Stack(local):
    def __init__(self) -> None:
        self.passing: list[Passing] = []


_stack = _Stack()


def _switch_off() -> None:
    while _put_back:
        _put_back.pop()()


def _switch_on() -> None:
    """The layers of torch_geometric tell what they do; where nobody has imported it, there are none."""
    if "torch_geometric.nn" not in sys.modules:
        return
    from torch_geometric.nn import MessagePassing
    from torch_geometric.nn.conv import han_conv
    from torch_geometric.utils import softmax

    _swap("softmax", softmax, _heard_softmax.__code__)
    _swap("group", han_conv.group, _heard_group.__code__)
    MessagePassing._call_impl = _called  # what __call__ goes on with, compiled or not
    _put_back.append(lambda: delattr(MessagePassing, "_call_impl"))


def _swap(name: str, function: FunctionType, code: Any) -> None:
    """Another code for a function, so that every alias of it is heard; the first stays callable by name."""
    if not isinstance(function, FunctionType) or function.__closure__:
        return  # another version, whose layers will be said to be missed
    own = function.__code__
    first = FunctionType(own, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    first.__kwdefaults__ = function.__kwdefaults__
    _first[name] = first
    function.__code__ = code
    _put_back.append(lambda: setattr(function, "__code__", own))


def _heard_softmax(src, index=None, ptr=None, num_nodes=None, dim=0):
    from regard.recording.capture.torch_geometric import softmax as heard

    return heard(src, index, ptr, num_nodes, dim)


def _heard_group(xs, q, k_lin):
    from regard.recording.capture.torch_geometric import group as heard

    return heard(xs, q, k_lin)


class Passing:
    """One forward of a convolution: the edges that it was given, and those that it propagates along."""

    def __init__(self, conv: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], watch: RecordingMode):
        self.conv, self.watch = conv, watch
        try:
            self.arguments = inspect.signature(conv.forward).bind(*args, **kwargs).arguments
        except TypeError:  # forward itself will say what is wrong
            self.arguments = {}
        self.used: Any = None  # what propagate was given
        self.size: Any = None
        self.passed: dict[str, Any] = {}
        self.heard = self.any = False
        self.taken: set[Any] = set()  # types of edges that were propagated along
        self.forced: Iterator[Tensor] | None = None  # weights that a second run of message is to take

    def saw(self, conv: nn.Module, inputs: Any) -> None:
        self.used, self.size, self.passed = inputs

    def after(self, conv: Any, inputs: Any, out: Any) -> Any:
        """A message was made without the softmax: weights that the layer leaves in _alpha are read there."""
        heard, self.heard = self.heard, False
        alpha = getattr(conv, "_alpha", None)
        if heard or self.forced is not None or not isinstance(alpha, Tensor) or self.watch.quiet:
            return None
        with self.watch.unheard():
            graph = caller_graph(self, None, None)
        shape = None if graph is None else _shape(conv, alpha)
        if graph is None or shape is None or alpha.shape[0] != graph.edge.shape[0]:
            return None
        self.any = True
        call = Edged(
            shape[0](alpha),
            graph,
            self._again(conv, inputs[0], shape[1]),
            type(conv).__name__,
            alpha,
            shape[0],
            group=self._group(conv, inputs[0], graph),
        )
        return self.watch.ran(call, lambda: out)

    def _group(self, conv: Any, given: dict[str, Any], graph: CapturedEdges) -> Tensor | None:
        """Which weights sum to one together: each stands alone for FAConv; those of a relation for RGATConv."""
        if type(conv).__name__ == "FAConv":
            return torch.arange(graph.edge.shape[0], device=graph.edge.device)
        if type(conv).__name__ == "RGATConv":
            return graph.target * conv.num_relations + given["edge_type"]
        return None

    def _again(self, conv: Any, given: dict[str, Any], back: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Any]:
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


def _called(conv: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """What calling a MessagePassing does while something listens."""
    watch = watching()
    if watch is None:
        return nn.Module._call_impl(conv, *args, **kwargs)
    passing = Passing(conv, args, kwargs, watch)
    hooks = [
        conv.register_propagate_forward_pre_hook(passing.saw),  # type: ignore[operator]
        conv.register_edge_update_forward_pre_hook(passing.saw),  # type: ignore[operator]
    ]
    if hasattr(conv, "_alpha"):
        hooks.append(conv.register_message_forward_hook(passing.after))  # type: ignore[operator]
    _stack.passing.append(passing)
    try:
        out = nn.Module._call_impl(conv, *args, **kwargs)
    finally:
        _stack.passing.remove(passing)
        for hook in hooks:
            hook.remove()
    _alarm(passing)
    return out


def _alarm(passing: Passing) -> None:
    """A layer with attention of its own that nothing was heard of is said to be missed."""
    if passing.any or passing.used is None:
        return
    own = any(name.startswith("att") for name, _ in passing.conv.named_parameters(recurse=False))
    alpha = passing.passed.get("alpha")
    own = own or isinstance(alpha, (Tensor, tuple))
    edges = passing.used.shape[-1] if isinstance(passing.used, Tensor) and not passing.used.is_sparse else 1
    if own and edges:
        running = modules_running()
        running.append(passing.conv)  # it has just left
        passing.watch.miss(type(passing.conv).__name__)
        running.pop()


def softmax(src: Tensor, index: Any, ptr: Any, num_nodes: Any, dim: int) -> Tensor:
    """torch_geometric.utils.softmax, heard."""
    passing = _stack.passing[-1] if _stack.passing else None
    if passing is not None and passing.forced is not None:
        return next(passing.forced)
    watch, first = watching(), _first["softmax"]
    if watch is None:
        return first(src, index, ptr, num_nodes, dim)
    with watch.unheard():
        weights = first(src, index, ptr, num_nodes, dim)
        running = modules_running()
        owner = running[-1] if running else None
        partial = passing is not None and hasattr(passing.conv, "_alpha") and _is_part(passing, index)
        graph = None if partial else _graph(passing, owner, src, index, ptr, num_nodes, dim)
    if partial:  # the whole is read when the message is made
        return weights
    weigher = owner if passing is None or isinstance(owner, _aggregation()) else passing.conv
    shape = None if graph is None else _shape(weigher, weights)
    if graph is None or shape is None:
        watch.miss("torch_geometric.utils.softmax")
        return weights
    if passing is not None:
        passing.heard = passing.any = True
    canonical, back = shape
    call = Edged(canonical(weights), graph, back, "softmax over edges", weights, canonical)
    return watch.ran(call, lambda: weights)


def _is_part(passing: Passing, index: Any) -> bool:
    used = passing.used
    return (
        isinstance(used, Tensor)
        and isinstance(index, Tensor)
        and used.layout == torch.strided
        and (index.numel() != used.shape[1])
    )


def _graph(
    passing: "Passing | None", owner: Any, src: Tensor, index: Any, ptr: Any, num_nodes: Any, dim: int
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


def group(xs: list[Tensor], q: Tensor, k_lin: nn.Module) -> Any:
    """HANConv's attention over the types of edges: one weight a type, for all nodes of the type that attends."""
    watch, first = watching(), _first["group"]
    if watch is None:
        return first(xs, q, k_lin)
    with watch.unheard():
        out, weights = first(xs, q, k_lin)
    if weights is None:
        return out, weights

    def give(w: Tensor) -> Any:
        w = w.reshape(-1)
        return torch.sum(w.view(len(xs), 1, -1) * torch.stack(xs), dim=0), w

    return watch.ran(
        Weighed(weights.view(1, 1, 1, -1), None, give, "softmax over types of edges"), lambda: (out, weights)
    )


@switches.append
@Switch
@contextmanager
def _layers_tell() -> Iterator[None]:
    _switch_on()
    try:
        yield
    finally:
        _switch_off()
