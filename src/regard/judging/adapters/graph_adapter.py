"""A graph network as a judge needs it: instances are nodes or graphs, units are edges."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batch import Batch, Example
from regard.data.nodes import NodeTask
from regard.data.readers.graph_file import read_graph
from regard.data.readers.graph_set import graph_examples, set_arrays

from .adapter import Adapter
from .edge_selector import EdgeSelector
from .graph_instances import of_graphs, of_nodes
from .inputs import Inputs

Run = Callable[[nn.Module, Tensor, Tensor], Any]


def on_graph(
    model: nn.Module,
    x: Any,
    edge_index: Tensor | None = None,
    nodes: Sequence[int] | None = None,
    labels: Tensor | None = None,
    *,
    forward: Run | None = None,
    selector: EdgeSelector | None = None,
    hops: int | None = None,
    units: str = "into",
    size: int = 16,
) -> Adapter:
    """An adapter of a model that classifies the nodes of a graph; a unit is an edge, removed by deletion.

    x (N, F) dense or torch.sparse, edge_index (2, E): sources, then targets; labels (N,). Or x alone, a torch_geometric
              Data or a NodeTask: its test nodes, or all with a class where there is no test_mask
    nodes     which nodes are judged, all unless told; those without an edge from another node are left out
    forward   function(model, x, edge_index) -> logits (N, classes); model(x, edge_index) unless told
    hops      how far the model sees, the number of its layers: each node is then run with what it can hear alone, which
              is faster and changes nothing where a layer looks at neighbours only. Unless told, on the whole graph
    units     "into": the edges into the node; "all": every edge that it can hear along
    size      nodes that run side by side, each on a graph of its own

    The node itself is a special unit that always stays, so that a node without any edge is still defined. Loops are no
    units. With units="into" weights can be permuted and sought: they are one row, which sums to one.
    """
    if edge_index is None:
        x, edge_index, nodes, labels = _parts_of(x, nodes, labels)
    run = forward or (lambda model, x, edge_index: model(x, edge_index))
    judged = range(x.shape[0]) if nodes is None else nodes
    cases = of_nodes(edge_index, x.shape[0], judged, labels, hops, units).to(_device(model))

    def call(model: nn.Module, inputs: Inputs) -> Tensor:
        laid = cases.laid(inputs)
        out: Tensor = run(model, x.index_select(0, laid.row), laid.edge_index)
        return out[laid.root]

    placed = replace(selector or EdgeSelector(), cases=cases)
    made = Adapter(model, cases.instances(), forward=call, selector=placed, removal="mask", size=size)
    made.called_instances = "nodes"
    return made


def on_graphs(
    model: nn.Module,
    examples: "Sequence[Example | Any]",
    *,
    forward: Callable[[nn.Module, Batch], Any] | None = None,
    selector: EdgeSelector | None = None,
    bonds: bool = True,
    size: int = 64,
) -> Adapter:
    """An adapter of a model that judges whole graphs; a unit is an edge, both directions of it, removed by deletion.

    examples   of `regard.data`, with edges; their gold is kept. Or torch_geometric Data, with y and, if any, node_mask
    forward    function(model, batch) -> logits (B, classes), or one number each; model(batch).out unless told
    selector   which weights are judged; the layers of regard.models.builders.graph_classifier unless told
    bonds      False: each direction is a unit of its own
    """
    if not examples:
        raise ValueError("on_graphs(examples) is empty: a judge needs at least one graph.")
    if not isinstance(examples[0], Example):
        examples = graph_examples(set_arrays(examples), "the list of Data")
    cases = of_graphs(examples, bonds).to(_device(model))
    x = torch.cat([one.inputs for one in examples]).to(_device(model))

    def call(model: nn.Module, inputs: Inputs) -> Any:
        laid = cases.laid(inputs)
        count = torch.arange(len(inputs), device=laid.graph.device)
        lengths = torch.bincount(laid.graph, minlength=len(inputs))
        batch = Batch(
            x[laid.row], torch.zeros_like(count), lengths, count, edge_index=laid.edge_index, graph=laid.graph
        )
        return model(batch) if forward is None else forward(model, batch)

    placed = replace(selector or EdgeSelector("features.layers.*"), cases=cases)
    made = Adapter(model, cases.instances(), forward=call, selector=placed, removal="mask", size=size)
    made.called_instances = "graphs"
    return made


def _parts_of(
    given: Any, nodes: Sequence[int] | None, labels: Tensor | None
) -> tuple[Tensor, Tensor, Sequence[int], Tensor]:
    """x, edge_index, the nodes that are judged and the labels of a graph that is one object."""
    if isinstance(given, Tensor):
        raise TypeError("on_graph(model, x, edge_index) needs both; or one object, on_graph(model, data).")
    task = given if isinstance(given, NodeTask) else read_graph(given)
    split = isinstance(given, NodeTask) or getattr(given, "test_mask", None) is not None
    chosen = (task.test if split else task.y >= 0).nonzero()[:, 0].tolist() if nodes is None else nodes
    return task.x, task.edge_index, chosen, task.y if labels is None else labels


def _device(model: nn.Module) -> torch.device:
    return next((x.device for x in model.parameters()), torch.device("cpu"))
