"""Two relations: one informative, one random."""

import numpy as np
import torch
from torch import Tensor

from regard.data.nodes import NodeTask, split_masks


def two_relations(
    nodes: int = 600, classes: int = 3, degree: int = 6, agree: float = 0.9, told: float = 0.3, seed: int = 0
) -> tuple[NodeTask, Tensor]:
    """A node task and the relation of each edge (E,): 0 leads to nodes of the same class with probability `agree`, 1 to
    any node.

    x (N, classes): the one-hot class for a share `told` of the nodes, zeros for the others; each node has `degree`
    edges of each relation. Half of the nodes are train, a quarter val, a quarter test; nodes with a revealed class
    are never val or test. Attention should weight relation 0: equal weights mix in noise from relation 1.
    """
    if nodes < 8 or classes < 2 or not 0 <= agree <= 1 or not 0 < told < 0.5:
        raise ValueError(
            f"two_relations(nodes={nodes}, classes={classes}, agree={agree}, told={told}): expected 8 or "
            "more nodes, 2 or more classes, 0 <= agree <= 1 and 0 < told < 0.5."
        )
    draw = np.random.default_rng(seed)
    y = draw.integers(classes, size=nodes)
    same = [np.flatnonzero(y == kind) for kind in y]
    target = np.repeat(np.arange(nodes), 2 * degree)
    relation = np.tile(np.repeat([0, 1], degree), nodes)
    anyone = draw.integers(nodes, size=len(target))
    friend = np.array([same[i][draw.integers(len(same[i]))] for i in target])
    source = np.where((relation == 0) & (draw.random(len(target)) < agree), friend, anyone)
    order = torch.from_numpy(draw.permutation(nodes))
    known = torch.zeros(nodes, dtype=torch.bool).index_fill_(0, order[: int(told * nodes)], True)
    learned, *others = split_masks(order.numpy())
    labels, edges = torch.from_numpy(y), torch.from_numpy(np.stack([source, target]))
    x = (torch.nn.functional.one_hot(labels, classes) * known[:, None]).float()
    return NodeTask("two relations", x, labels, edges, learned & ~known, *others), torch.from_numpy(relation)
