"""Graph networks of `regard train --out` as adapters for judging on their test data."""

from dataclasses import replace
from typing import Any

import torch

from regard.data.readers.labelled_text import spread
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.edge_selector import EdgeSelector
from regard.judging.adapters.graph_adapter import on_graph, on_graphs
from regard.lab.tasks.graphs.graph_classification import count_answers
from regard.lab.tasks.graphs.hetero_accuracy import RECIPE
from regard.models.hetero_gnn import TYPED, GATAsOne, as_one
from regard.models.training.hetero_checkpoint import HeteroRun
from regard.models.training.node_checkpoint import NodeRun
from regard.models.training.node_training import fit, train
from regard.models.training.run_checkpoint import Run

HOPS = 2  # layers of the networks of `regard train gat`


def of_graphs(run: Run, limit: int | None, selector: AttentionSelector | None, device: str, size: int) -> Adapter:
    """Whole graphs (tu, molecules, motifs); a unit is an edge, in both directions. Baseline: counts of nodes."""
    some = [run.task.test[place] for place in spread(len(run.task.test), limit)]
    made = on_graphs(
        run.model.to(device), some, selector=replace(_edges(selector), sites="features.layers.*"), size=size
    )
    made.names, made.trivial = run.task.names, {"counts of nodes": count_answers(run.task.train, some)}
    return made


def of_nodes(run: NodeRun, limit: int | None, selector: AttentionSelector | None, device: str, size: int) -> Adapter:
    """Test nodes with a neighbour; a unit is an edge into the node. Baseline: an MLP without edges."""
    task = run.task
    source, target = task.edge_index
    heard = torch.bincount(target[source != target], minlength=task.nodes) > 0
    able = (task.test & heard).nonzero()[:, 0]
    nodes = able[spread(len(able), limit)]
    plain, _ = train("mlp", task, run.seed)
    with torch.no_grad():
        said = plain.eval()(task.x, task.edge_index)[nodes].argmax(-1).tolist()
    there = task.to(device)
    made = on_graph(
        run.model.to(device),
        there.x,
        there.edge_index,
        nodes.tolist(),
        task.y,
        hops=HOPS,
        selector=_edges(selector),
        size=size,
    )
    made.trivial = {"MLP without edges": said}
    return made


def of_typed(run: HeteroRun, limit: int | None, selector: AttentionSelector | None, device: str, size: int) -> Adapter:
    """Test nodes of a heterogeneous graph for a GAT without types, so any edge can be removed. Baseline: an MLP."""
    if not isinstance(run.model, GATAsOne):
        raise ValueError(
            f"Networks of the kind {run.kind} cannot be judged: their edges have types, and judges remove edges of "
            "one homogeneous graph. Judge the GAT on the same graph: regard train hetero --kind gat."
        )
    task, graph, network = run.task, as_one(run.task), run.model.to(device)
    kinds = list(graph.size)
    first = sum(graph.size[kind] for kind in kinds[: kinds.index(task.target)])
    with torch.no_grad():
        x = torch.cat([*network.entrance({kind: part.to(device) for kind, part in task.x.items()}).values()])
    source, target = graph.index
    heard = torch.bincount(target[source != target], minlength=len(x)) > 0
    able = (task.test & heard[first : first + len(task.y)]).nonzero()[:, 0]
    nodes = able[spread(len(able), limit)]
    labels = torch.full((len(x),), -1).index_copy(0, torch.arange(first, first + len(task.y)), task.y)
    made = on_graph(
        network,
        x,
        graph.index.to(device),
        (nodes + first).tolist(),
        labels,
        forward=_behind_entrance,
        hops=HOPS,
        selector=_edges(selector),
        size=size,
    )
    sees = TYPED["mlp"].sees(task)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        plain = TYPED["mlp"].make(sees, RECIPE)
        fit(plain, sees, RECIPE)
    with torch.no_grad():
        said = plain.eval()(sees.x, sees.edge_index)[nodes].argmax(-1).tolist()
    made.trivial = {"MLP without edges": said}
    return made


def _behind_entrance(model: Any, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
    """The network after its input projection by node type."""
    out: torch.Tensor = model.second(model.between(model.first(x, edge_index)), edge_index)
    return out.log_softmax(-1)


def _edges(selector: AttentionSelector | None) -> EdgeSelector:
    return EdgeSelector() if selector is None else EdgeSelector(layer=selector.layer, row=selector.row)
