"""Graph motifs: a chain with a motif hung on it, and the motif is the class."""

import numpy as np
import torch

from regard.data.batch import Example
from regard.data.task import Task

MOTIFS = {
    "house": ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)),
    "crossing": ((0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)),
}
SIZE = 5
HIGHEST = 4  # higher degrees share a feature


def motifs(nodes: int = 20, train: int = 600, val: int = 100, test: int = 100, seed: int = 0) -> Task:
    """House or crossing? inputs (N, 5) the degree of each node, one-hot; undirected; gold (N,) 1 on the nodes of
    the motif.

    Both have five nodes, six edges and the degrees 2, 2, 2, 3, 3: in a house (a square with a roof) the two of degree 3
    are neighbours, in a crossing (two nodes that both see the other three) they are not. A random node of the
    motif is attached to a random node of a chain of between nodes / 2 and `nodes` nodes, and nodes are shuffled. So
    node counts are uninformative, and only the motif separates the classes. After BA-2motifs (Luo et al. 2020),
    where counts are enough.
    """
    if nodes < 2:
        raise ValueError(f"motifs(nodes={nodes}): expected a chain of 2 or more nodes.")
    draw = np.random.default_rng(seed)

    def example(place: int) -> Example:
        label = int(draw.integers(len(MOTIFS)))
        chain = int(draw.integers(max(2, nodes // 2), nodes + 1))
        pairs = [(i, i + 1) for i in range(chain - 1)]
        pairs += [(chain + a, chain + b) for a, b in MOTIFS[tuple(MOTIFS)[label]]]
        pairs.append((int(draw.integers(chain)), chain + int(draw.integers(SIZE))))
        order = torch.from_numpy(draw.permutation(chain + SIZE))
        one_way = order[torch.tensor(pairs).T]
        edges = torch.cat([one_way, one_way.flip(0)], 1)
        degree = torch.bincount(edges[1], minlength=chain + SIZE).clamp_max(HIGHEST)
        gold = torch.zeros(chain + SIZE).index_fill_(0, order[chain:], 1.0)
        x = torch.nn.functional.one_hot(degree, HIGHEST + 1).float()
        return Example(x, torch.tensor(label), gold, edges=edges, id=place)

    parts = ([example(place) for place in range(count)] for count in (train, val, test))
    return Task("motifs", *parts, classes=len(MOTIFS), names=tuple(MOTIFS))
