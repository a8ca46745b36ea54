"""Far: the answer stands at a known distance from the node that is asked."""

import numpy as np
import torch

from regard.data.nodes import NodeTask, split_masks

BEYOND = 2  # nodes behind the one that knows


def far(distance: int, graphs: int = 200, colours: int = 4, seed: int = 0) -> NodeTask:
    """Chains: the first node is asked for the colour of the node that is `distance` edges away.

    x (N, colours + 2): the colour of each node, one-hot and drawn; a mark on the node that is asked, another on the
    one that knows. Every node has a colour, so that it matters whose is heard. Chains go on two nodes further; edges
    both ways. Only nodes that are asked are learned from (half of the chains), chosen by and judged on.

    A network of fewer layers than `distance` is at chance, 1 / colours, whatever it attends to.
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
