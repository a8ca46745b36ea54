"""How much each edge and each node of a graph matters: attention by layer, GAtt, gradients, degree, chance."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.recording import record
from regard.recording.attribution.gatt import gatt

from ..adapters.adapter import Adapter
from ..adapters.edge_selector import EdgeSelector, edge_gradient, on_edges
from ..adapters.inputs import Inputs
from ..statistics.intervals import stream
from .gradients import log_odds
from .importance import Importance

OfNodes = Callable[[Adapter, Inputs], Tensor]


def edge_selector_of(adapter: Adapter) -> EdgeSelector:
    """The selector of an adapter of graphs."""
    if not isinstance(adapter.selector, EdgeSelector):
        raise TypeError(
            f"This test is about edges, and the adapter selects by {type(adapter.selector).__name__}: make it by "
            "on_graph() or on_graphs()."
        )
    return adapter.selector


def of_layer(layer: "int | str") -> Importance:
    """The weights of one layer, or of all of them ("mean"): (adapter, inputs) -> (B, n)."""

    def attention(adapter: Adapter, inputs: Inputs) -> Tensor:
        return replace(edge_selector_of(adapter), layer=layer).read(adapter.maps(inputs), inputs)

    return attention


def by_rivals(weights: Tensor, target: Tensor, nodes: int) -> Tensor:
    """(E,): each weight by the mean of those that enter the same node; 1 everywhere where weights are uniform.

    Weights of a node sum to one, so that a weight is first of all one over the number of its rivals.
    """
    total = torch.zeros(nodes, dtype=torch.float64, device=weights.device).index_add(0, target, weights.double())
    usual = total / torch.bincount(target, minlength=nodes).clamp_min(1)
    return weights.double() / usual[target].where(usual[target] > 0, 1.0)


def relative(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): the mean weight of all layers by that of its rivals (`by_rivals`)."""
    selector, laid = replace(edge_selector_of(adapter), layer="mean"), edge_selector_of(adapter).laid(inputs)
    weights = on_edges(selector, adapter.maps(inputs))
    return selector.of_units(by_rivals(weights, laid.edge_index[1], laid.graph.shape[0]), inputs)


def gatt_of_units(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): GAtt, what the weights of all layers carry to the judged node along each edge; of a graph, to all."""
    selector = edge_selector_of(adapter)
    return selector.of_units(_gatt(adapter, inputs)[0], inputs)


def degree_of_units(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): how many edges the two ends of an edge have. What a measure that knows the shape alone would say."""
    selector = edge_selector_of(adapter)
    source, target = selector.laid(inputs).edge_index
    nodes = torch.bincount(torch.cat([source, target]))
    return selector.of_units((nodes[source] + nodes[target]).double(), inputs)


def layers_of(adapter: Adapter) -> dict[str, Importance]:
    """Attention as the mean of the layers, by that of its rivals, of each layer; GAtt; the signed gradient of masks."""
    made: dict[str, Importance] = {"attention, mean of layers": of_layer("mean"), "attention by its rivals": relative}
    for layer in range(len(replace(edge_selector_of(adapter), layer="mean").judged(adapter.sites))):
        made[f"attention, layer {layer + 1}"] = of_layer(layer)
    return made | {"GAtt": gatt_of_units, "gradient": edge_gradient}


def mass(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(N,): how much each node is looked at, itself included; the mean of heads and layers."""
    maps = adapter.maps(inputs)
    names = replace(edge_selector_of(adapter), layer="mean").judged(list(maps))
    return torch.stack([maps[name].mass().flatten(0, -2).double().mean(0) for name in names]).mean(0)


def gatt_of_nodes(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(N,): what GAtt has on the edges that leave a node, its own loop included."""
    edges, loops = _gatt(adapter, inputs)
    source = edge_selector_of(adapter).laid(inputs).edge_index[0]
    return loops.double().index_add(0, source, edges.double())


def readout(site: str = "attention") -> OfNodes:
    """How much each node is looked at where a graph is read off its nodes, at a site of the model."""

    def weights(adapter: Adapter, inputs: Inputs) -> Tensor:
        with torch.no_grad(), record(adapter.model, sites=site) as rec:
            adapter.logits(inputs)
        found = next(iter(rec.maps.values())).weights()  # (1, H, graphs, N): other graphs have 0
        return found.double().flatten(0, -3).mean(0).sum(0)

    return weights


def gradient_of_nodes(towards: int | None = None) -> OfNodes:
    """gradient . features of each node, of the log-odds of the predicted class or of `towards`; signed."""

    def pull(adapter: Adapter, inputs: Inputs) -> Tensor:
        held: list[Tensor] = []

        def hold(module: Any, given: Any) -> Any:
            batch = given[0]
            held.append(batch.inputs.detach().requires_grad_())
            return (replace(batch, inputs=held[0]), *given[1:])

        hook = adapter.model.register_forward_pre_hook(hold)
        try:
            with torch.enable_grad():
                (found,) = torch.autograd.grad(log_odds(adapter.logits(inputs), towards).sum(), held[:1])
        finally:
            hook.remove()
        return (found.double() * held[0].detach().double()).sum(-1)

    return pull


def degree_of_nodes(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(N,): how many edges leave each node."""
    laid = edge_selector_of(adapter).laid(inputs)
    return torch.bincount(laid.edge_index[0], minlength=laid.graph.shape[0]).double()


def chance_of_nodes(seed: int = 0) -> OfNodes:
    draw = stream(seed, "chance of nodes")

    def random(adapter: Adapter, inputs: Inputs) -> Tensor:
        graph = edge_selector_of(adapter).laid(inputs).graph
        return torch.from_numpy(draw.random(graph.shape[0])).to(graph.device)

    return random


def _gatt(adapter: Adapter, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """On edges (E,) and on loops (N,)."""
    selector = edge_selector_of(adapter)
    maps, laid = adapter.maps(inputs), selector.laid(inputs)
    layers = [maps[name] for name in replace(selector, layer="mean").judged(list(maps))]
    nodes = torch.arange(laid.graph.shape[0], device=laid.graph.device) if laid.root is None else laid.root
    found = gatt(layers, nodes)
    return found.edges().sum(0), found.loops.sum(0)
