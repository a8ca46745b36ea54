"""Networks for heterogeneous graphs, each with two hops of attention and the same widths."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data import NodeTask, TypedTask
from ..data.hetero import EdgeType
from ..nn.graph import GATConv, HANConv, HGTConv, SimpleHGNConv
from ..nn.graph.features import dropped
from ..nn.graph.linear import linear
from .mlp import MLP
from .training.node_training import Recipe


@dataclass(frozen=True, eq=False)
class AsOne:
    """A heterogeneous graph as one edge list: index (2, E) and edge types kind (E,), with self-loops as a type.

    size {node type: nodes}, in the order of concatenation.
    """

    index: Tensor
    kind: Tensor
    kinds: int
    size: Mapping[str, int]


def as_one(task: TypedTask) -> AsOne:
    size = {node_type: x.shape[0] for node_type, x in task.x.items()}
    total = sum(size.values())
    start = dict(zip(size, accumulate(size.values(), initial=0), strict=False))
    typed: Mapping[EdgeType, Tensor] = task.edge_index
    parts = [edges + torch.tensor([[start[source]], [start[target]]]) for (source, _, target), edges in typed.items()]
    parts.append(torch.arange(total).expand(2, -1))
    kind = torch.cat([torch.full((part.shape[1],), number) for number, part in enumerate(parts)])
    return AsOne(torch.cat(parts, 1), kind, len(parts), size)


class Entrance(nn.Module):
    """Dropout and a linear map for each node type: {type: (N, F)} -> {type: (N, width)}."""

    def __init__(self, x: Mapping[str, Tensor], width: int, dropout: float):
        super().__init__()
        self.dropout = dropout
        self.maps = nn.ModuleDict({kind: linear(part.shape[1], width) for kind, part in x.items()})

    def forward(self, x: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {kind: self.maps[kind](dropped(part, self.dropout, self.training)) for kind, part in x.items()}


class Network(nn.Module):
    """Base class: input projection, dropout between layers, log-probabilities of the target nodes."""

    def __init__(self, task: TypedTask, recipe: Recipe):
        super().__init__()
        self.target, self.dropout = task.target, recipe.dropout
        self.width = recipe.hidden * recipe.heads
        self.entrance = Entrance(task.x, self.width, recipe.dropout)

    def between(self, x: Tensor) -> Tensor:
        return dropped(F.elu(x), self.dropout, self.training)

    def pick(self, h: Tensor, size: Mapping[str, int]) -> Tensor:
        return F.log_softmax(h.split(list(size.values()))[list(size).index(self.target)], -1)


class GATAsOne(Network):
    """GAT without types: all nodes and edges as one homogeneous graph. align="uniform" is the mean of neighbours."""

    def __init__(self, task: TypedTask, recipe: Recipe, align: str = "softmax"):
        super().__init__(task, recipe)
        shared: dict[str, Any] = {"heads": recipe.heads, "add_self_loops": False, "align": align}
        self.first = GATConv(self.width, recipe.hidden, **shared)
        self.second = GATConv(self.width, task.classes, concat=False, **shared)

    def forward(self, x: Mapping[str, Tensor], graph: AsOne) -> Tensor:
        h = torch.cat([*self.entrance(x).values()])
        h = self.second(self.between(self.first(h, graph.index)), graph.index)
        return self.pick(h, graph.size)


class SimpleHGN(Network):
    """GAT with edge types in the score, residuals, and residual attention from the first layer."""

    def __init__(self, task: TypedTask, recipe: Recipe):
        super().__init__(task, recipe)
        shared: dict[str, Any] = {"heads": recipe.heads, "residual": True}
        self.first = SimpleHGNConv(self.width, recipe.hidden, task.edge_index.kinds, **shared)
        self.second = SimpleHGNConv(self.width, task.classes, task.edge_index.kinds, concat=False, **shared)

    def forward(self, x: Mapping[str, Tensor], graph: AsOne) -> Tensor:
        h = torch.cat([*self.entrance(x).values()])
        h, weights = self.first(h, graph.index, graph.kind, return_weights=True)
        h = self.second(self.between(h), graph.index, graph.kind, previous=weights)
        return self.pick(h, graph.size)


class HGT(Network):
    """Projections by node type, metrics by edge type, one softmax over all edges."""

    def __init__(self, task: TypedTask, recipe: Recipe):
        super().__init__(task, recipe)
        metadata = (list(task.x), list(task.edge_index))
        self.first = HGTConv(self.width, self.width, metadata, heads=recipe.heads)
        self.second = HGTConv(self.width, self.width, metadata, heads=recipe.heads)
        self.answer = linear(self.width, task.classes)

    def forward(self, x: Mapping[str, Tensor], edges: Mapping[EdgeType, Tensor]) -> Tensor:
        h = self.first(self.entrance(x), edges)
        h = self.second({kind: self.between(part) for kind, part in h.items()}, edges)
        return F.log_softmax(self.answer(self.between(h[self.target])), -1)


class HAN(Network):
    """One layer over meta-paths between nodes of the target type, then attention over the paths."""

    def __init__(self, task: TypedTask, recipe: Recipe):
        super().__init__(task, recipe)
        self.layer = HANConv(self.width, self.width, ([task.target], list(task.edge_index)), heads=recipe.heads)
        self.answer = linear(self.width, task.classes)

    def forward(self, x: Mapping[str, Tensor], paths: Mapping[EdgeType, Tensor]) -> Tensor:
        h = self.layer(self.entrance(x), paths)[self.target]
        return F.log_softmax(self.answer(dropped(h, self.dropout, self.training)), -1)


def alone(task: TypedTask) -> NodeTask:
    """The target nodes without edges."""
    nothing = torch.empty(2, 0, dtype=torch.long)
    return NodeTask(task.name, task.x[task.target], task.y, nothing, task.train, task.val, task.test)


def together(task: TypedTask) -> TypedTask:
    """All nodes and edges as one graph, with self-loops."""
    return replace(task, edge_index=as_one(task))


def by_paths(task: TypedTask) -> TypedTask:
    """The target nodes, connected by the task's meta-paths; without any, by shared neighbours of each
    relation."""
    own = {(task.target, name, task.target): task.along(path) for name, path in task.paths.items()}
    if own:
        return replace(task, x={task.target: task.x[task.target]}, edge_index=own)
    there = [kind for kind in task.edge_index if kind[0] == task.target]
    paths = {(task.target, kind[1], task.target): task.path(kind) for kind in there}
    return replace(task, x={task.target: task.x[task.target]}, edge_index=paths)


@dataclass(frozen=True)
class Kind:
    """How to build a network for a task, and the form of the graph that it takes."""

    says: str
    make: Callable[[Any, Recipe], nn.Module]
    sees: Callable[[TypedTask], Any]


TYPED: dict[str, Kind] = {
    "mlp": Kind("MLP without edges", lambda t, r: MLP(t.x.shape[1], r.hidden * r.heads, t.classes, r.dropout), alone),
    "mean": Kind("mean of neighbours, without types", lambda t, r: GATAsOne(t, r, "uniform"), together),
    "gat": Kind("GAT, without types", GATAsOne, together),
    "simple_hgn": Kind("SimpleHGN", SimpleHGN, together),
    "hgt": Kind("HGT", HGT, lambda t: t),
    "han": Kind("HAN on meta-paths", HAN, by_paths),
}
