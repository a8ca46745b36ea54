"""A graph network as a judge needs it: instances are nodes, units are the edges into them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..core.errors import Refused
from ..core.maps import AttentionMap
from .adapter import Adapter
from .inputs import Inputs, Instance
from .looks import Look

Run = Callable[[nn.Module, Tensor, Tensor], Any]


@dataclass(frozen=True)
class EdgeLook(Look):
    """The weight of each edge into a node: the mean of heads, of a layer (the last unless told) or of all of them."""

    tokens = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer == "rollout" or self.row != 0:
            raise ValueError(f"EdgeLook(layer={self.layer!r}, row={self.row!r}): expected the number of a layer or "
                             "'mean'; each node has one row of its own.")  # fmt: skip

    def rows(self, inputs: Inputs, n: int) -> Tensor:
        raise Refused("Weights on edges are judged by ablation and by erasure: permuting and seeking others among the "
                      "edges of one node is not there yet.")  # fmt: skip

    def read(self, maps: Mapping[str, AttentionMap], inputs: Inputs) -> Tensor:
        found = [maps[name].edges() for name in self.judged(list(maps))]
        weights = torch.stack([one.reshape(-1, one.shape[-1]).mean(0) for one in found]).mean(0)  # (E,)
        return weights[inputs.tokens.clamp_min(0)].masked_fill(~inputs.units, 0.0)


def on_graph(
    model: nn.Module, x: Tensor, edge_index: Tensor, nodes: Sequence[int] | None = None, labels: Tensor | None = None,
    *, forward: Run | None = None, look: EdgeLook | None = None, size: int = 16,
) -> Adapter:  # fmt: skip
    """An adapter of a model that classifies the nodes of a graph; a unit is an edge into the node, removed by deletion.

    x (N, F), edge_index (2, E): sources, then targets; labels (N,)
    nodes     which nodes are judged, all unless told; those without an edge from another node are left out
    forward   function(model, x, edge_index) -> logits (N, classes); model(x, edge_index) unless told
    size      copies of the graph that run side by side, each without other edges

    The node itself is a special unit that always stays, so that a node without any edge is still defined.
    """
    run = forward or (lambda model, x, edge_index: model(x, edge_index))
    count = x.shape[0]
    edge = (edge_index[0] != edge_index[1]).nonzero()[:, 0]
    edge = edge[edge_index[1][edge].argsort(stable=True)]
    degree = torch.bincount(edge_index[1][edge], minlength=count)
    into = dict(enumerate(edge.split(degree.tolist())))
    judged = [node for node in (range(count) if nodes is None else nodes) if len(into[int(node)])]
    if not judged:
        raise ValueError("on_graph(nodes): none of them has an edge from another node, so there is nothing to judge.")
    instances = []
    for node in map(int, judged):
        tokens = torch.cat([torch.tensor([-1 - node]), into[node].cpu()])
        label = None if labels is None else int(labels[node])
        instances.append(Instance(tokens, label, tokens < 0))

    def call(model: nn.Module, inputs: Inputs) -> Tensor:
        node = -1 - inputs.tokens[:, 0]
        place = torch.arange(inputs.tokens.shape[1], device=node.device)
        gone = ~inputs.real & (place <= degree.to(node.device)[node][:, None])
        if not bool(gone.any()):
            whole: Tensor = run(model, x, edge_index)
            return whole[node]
        keep = torch.ones((len(inputs), edge_index.shape[1]), dtype=torch.bool, device=node.device)
        item, at = gone.nonzero(as_tuple=True)
        keep[item, inputs.tokens[item, at]] = False
        copy, left = keep.nonzero(as_tuple=True)
        out: Tensor = run(model, x.repeat(len(inputs), 1), edge_index[:, left] + copy * count)
        return out.unflatten(0, (len(inputs), count))[torch.arange(len(inputs), device=node.device), node]

    return Adapter(model, instances, forward=call, look=look or EdgeLook(), removal="mask", size=size)
