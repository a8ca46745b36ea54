"""The contextual stochastic block model: two classes with informative features and mostly intra-class edges."""

import numpy as np
import torch

from regard.data.nodes import NodeTask, split_masks


def csbm(
    nodes: int = 400, signal: float = 1.0, same: float = 0.75, degree: float = 10, width: int = 8, seed: int = 0
) -> NodeTask:
    """Which of two classes? x (N, width) from N(+mu, I) or N(-mu, I); undirected.

        x_i ~ N(y_i mu, I),  |mu| = signal,   P(i - j) = 2 degree / N times same, or 1 - same across

    signal   class separation: the best accuracy of an MLP is Phi(signal)
    same     the share of edges within a class; at 0.5 edges are uninformative

    Half of the nodes are train, a quarter val, a quarter test. Attention should separate intra- from inter-class edges,
    and can if the signal is well above sqrt(log N); below, nothing can. Deshpande et al.
    2018; Fountoulakis et al. 2023.
    """
    if nodes < 8 or width < 1 or not 0 <= same <= 1 or not 0 < degree < nodes / 2:
        raise ValueError(
            f"csbm(nodes={nodes}, same={same}, degree={degree}, width={width}): expected 8 or more nodes, "
            "0 <= same <= 1, a degree below half of the nodes and a width of 1 or more."
        )
    draw = np.random.default_rng(seed)
    y = draw.permutation(np.arange(nodes) % 2)
    mu = draw.normal(size=width)
    x = np.outer(2 * y - 1, signal * mu / np.linalg.norm(mu)) + draw.normal(size=(nodes, width))
    within = y[:, None] == y[None]
    chance = 2 * degree / nodes * np.where(within, same, 1 - same)
    joined = np.triu(draw.random((nodes, nodes)) < chance, 1)
    one_way = torch.from_numpy(np.stack(joined.nonzero()))
    both = torch.cat([one_way, one_way.flip(0)], 1)
    return NodeTask(
        "csbm", torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y), both, *split_masks(draw.permutation(nodes))
    )
