"""Graph networks that `regard train --out` left, made ready to be judged on the test part of their own data."""

from dataclasses import replace

import torch

from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.edge_selector import EdgeSelector
from regard.judging.adapters.graph_adapter import on_graph, on_graphs
from regard.lab.data.texts import spread
from regard.lab.tasks.graphs import count_answers
from regard.models.training.node_checkpoint import NodeRun
from regard.models.training.node_training import train
from regard.models.training.run_checkpoint import Run

HOPS = 2  # layers of the networks of `regard train gat`


def of_graphs(run: Run, limit: int | None, selector: AttentionSelector | None, device: str, size: int) -> Adapter:
    """Whole graphs (tu, molecules, motifs); a unit is an edge, both directions of it. Beside: counts of nodes."""
    some = [run.task.test[place] for place in spread(len(run.task.test), limit)]
    made = on_graphs(
        run.model.to(device), some, selector=replace(_edges(selector), sites="features.layers.*"), size=size
    )
    made.names, made.trivial = run.task.names, {"counts of nodes": count_answers(run.task.train, some)}
    return made


def of_nodes(run: NodeRun, limit: int | None, selector: AttentionSelector | None, device: str, size: int) -> Adapter:
    """Test nodes that have a neighbour; a unit is an edge into the node. Beside: an MLP without edges."""
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


def _edges(selector: AttentionSelector | None) -> EdgeSelector:
    return EdgeSelector() if selector is None else EdgeSelector(layer=selector.layer, row=selector.row)
