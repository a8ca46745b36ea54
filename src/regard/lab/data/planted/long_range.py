"""Long range: the answer is at a known distance from the query node."""

import numpy as np
import torch

from regard.data.nodes import NodeTask, split_masks

BEYOND = 2  # nodes behind the answer node


def far(distance: int, graphs: int = 200, colours: int = 4, seed: int = 0) -> NodeTask:
    """Chains: the label of the first node is the colour of the node at `distance` edges.

    x (N, colours + 2): a random one-hot colour for each node, a mark on the query node and one on the answer
    node. Every node has a colour, so that the source matters. Chains continue two nodes further; undirected. Only
    query nodes are in the splits (half of the chains in train).

    A network of fewer layers than `distance` is at chance, 1 / colours, for any weights.
    """
    if distance < 1 or graphs < 8 or colours < 2:
        raise ValueError(
            f"far(distance={distance}, graphs={graphs}, colours={colours}): expected a distance of 1 or "
            "more, 8 or more graphs and 2 or more colours."
        )
    draw = np.random.default_rng(seed)
    size = distance + 1 + BEYOND
    colour = torch.from_numpy(draw.integers(colours, size=(graphs, size)))
    marks = torch.zeros(graphs, size, 2)
    marks[:, 0, 0] = marks[:, distance, 1] = 1.0
    x = torch.cat([torch.nn.functional.one_hot(colour, colours).float(), marks], -1).flatten(0, 1)
    first = size * torch.arange(graphs)[:, None]
    one_way = torch.stack([(first + torch.arange(size - 1)).flatten(), (first + torch.arange(1, size)).flatten()])
    edges = torch.cat([one_way, one_way.flip(0)], 1)
    y = colour[:, distance].repeat_interleave(size)
    asked = torch.zeros(graphs, size, dtype=torch.bool)
    asked[:, 0] = True
    masks = (asked & part[:, None] for part in split_masks(draw.permutation(graphs)))
    return NodeTask(f"far {distance}", x, y, edges, *(mask.flatten() for mask in masks))
