"""Calls over edges, as tensors and numbers alone: whatever they launch follows from these, so launches are replayed.

Imported where Triton runs.
"""

from typing import Any

from torch import Tensor

from ..runtime.launch_replay import replayed
from . import edge_weights_launch as aligned
from . import launch as softmax
from .csr_schedule import CSRSchedule, WorkList
from .launch import EdgeCall


def of_graph(graph: CSRSchedule) -> tuple[Any, ...]:
    """What `run` is given of a graph."""
    to, by = graph.by_target, graph.by_source
    return graph.source, graph.target, graph.place, to.items, to.hubs, to.slots, by.items, by.hubs, by.slots


def _call(
    source: Tensor,
    target: Tensor,
    place: Tensor,
    to_items: Tensor,
    to_hubs: Tensor,
    to_slots: int,
    by_items: Tensor,
    by_hubs: Tensor,
    by_slots: int,
    *rest: Any,
) -> EdgeCall:
    both = WorkList(to_items, to_hubs, to_slots), WorkList(by_items, by_hubs, by_slots)
    return EdgeCall(CSRSchedule(source, target, place, *both), *rest)


@replayed
def run(align: str, bias: float | None, top: int, *given: Any) -> tuple[Tensor, Tensor, Tensor]:
    """What `edges_op` says. bias: of a sigmoid, None for -log of the number of neighbours; given: of_graph, Call."""
    call = _call(*given)
    return softmax.forward(call) if align == "softmax" else aligned.forward(call, align, bias, top)


@replayed
def run_back(align: str, *given: Any) -> list[Tensor]:
    """What `edges_triton_backward` says. given: of_graph, Call, then out, state and dout."""
    call, (out, state, dout) = _call(*given[:-3]), given[-3:]
    if align == "softmax":
        return softmax.backward(call, out, state, dout)
    return aligned.backward(call, align, state, dout)
