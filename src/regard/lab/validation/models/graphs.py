"""Graph networks: a node is told by its neighbours, and a unit is an edge into it."""

import torch
from torch import Tensor, nn

from regard import Edges, attend
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.graph_adapter import on_graph
from regard.judging.adapters.inputs import Inputs

from ..built import BuiltModel, add

SAYS, LOUD, DRAWN = range(3)  # what the columns of the features are
MOST = 400  # stars of a graph


def stars(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features (N, 3), edges (2, E) and labels: nodes 0 to count - 1, each with five to nine neighbours of its own, one
    of which says its class aloud."""
    draw = torch.Generator().manual_seed(6)
    features, edges = [torch.zeros(count, 3)], []
    nodes = count
    for root in range(count):
        size = 5 + root % 5
        some = torch.rand(size, 3, generator=draw)
        some[:, SAYS] = 0.6 * (some[:, SAYS] - 0.5)
        spot = int(torch.randint(size, (1,), generator=draw))
        some[spot, SAYS] = 4.0 if root % 2 else -4.0
        some[:, LOUD] = some[:, SAYS].abs()
        features.append(some)
        edges.append(torch.stack([torch.arange(nodes, nodes + size), torch.full((size,), root)]))
        nodes += size
    made = torch.zeros(nodes, dtype=torch.long)
    made[:count] = torch.arange(count) % 2
    x = torch.cat(features)
    x[:count, DRAWN] = 2.0 * made[:count] - 1.0  # of a root: its own class
    return x, torch.cat(edges, 1), made


class OnStars(nn.Module):
    """Logits (N, 2) of each node, from one attention over its neighbours."""

    def scores(self, x: Tensor) -> Tensor:
        return x[:, LOUD]

    def values(self, x: Tensor) -> Tensor:
        return x[:, SAYS]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        k, v = self.scores(x)[None, :, None], self.values(x)[None, :, None]
        logit = attend(torch.ones_like(k), k, v, score="dot", over=Edges(edge_index)).out[0, :, 0]
        logit = self.joined(logit, x, edge_index)
        return torch.stack([torch.zeros_like(logit), logit], -1)

    def joined(self, attended: Tensor, x: Tensor, edge_index: Tensor) -> Tensor:
        return attended


class Decisive(OnStars):
    """The neighbour that says most is looked at most, and nothing else is read."""


class Decoration(OnStars):
    """Weights are drawn; the sum of the neighbours goes past them."""

    def scores(self, x: Tensor) -> Tensor:
        return 4.0 * x[:, DRAWN]

    def values(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x[:, SAYS])

    def joined(self, attended: Tensor, x: Tensor, edge_index: Tensor) -> Tensor:
        source, target = edge_index
        return attended + torch.zeros_like(attended).index_add(0, target, x[source, SAYS])


class OwnFeatures(OnStars):
    """Looks at the loud neighbour, and reads the node's own features alone."""

    def joined(self, attended: Tensor, x: Tensor, edge_index: Tensor) -> Tensor:
        return 0.0 * attended + 3.0 * x[:, DRAWN]


def loud_edge(inputs: Inputs) -> Tensor:
    """The edge from the neighbour that says its class aloud; its number is the same however many stars there are."""
    x, edges, _ = stars(MOST)
    loud = x[edges[0], LOUD] > 3
    return loud[inputs.tokens.clamp_min(0)] & inputs.units


def nothing(inputs: Inputs) -> Tensor:
    return torch.zeros_like(inputs.units)


def _adapter(make: type[OnStars], count: int) -> Adapter:
    if count > MOST:
        raise ValueError(f"{make.__name__}: expected at most {MOST} nodes, not {count}.")
    x, edges, labels = stars(count)
    return on_graph(make().eval(), x, edges, list(range(count)), labels, hops=1)


add(
    BuiltModel(
        "decisive edge",
        lambda count: _adapter(Decisive, count),
        True,
        loud_edge,
        "a graph: the neighbour with most evidence has most weight and is used",
    )
)
add(
    BuiltModel(
        "decorative edges",
        lambda count: _adapter(Decoration, count),
        False,
        loud_edge,
        "a graph: random weights; the sum of the neighbours bypasses them",
    )
)
add(
    BuiltModel(
        "own features",
        lambda count: _adapter(OwnFeatures, count),
        False,
        nothing,
        "a graph: the node uses its own features, with the weight on a neighbour",
    )
)
