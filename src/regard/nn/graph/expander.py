"""Expander graphs: sparse graphs in which any node reaches any other in few steps."""

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from regard.core.arguments import shown, whole

COMPLETE = 10  # graphs of up to so many nodes get all edges
TRIES = 20
CHECKED = 20_000  # nodes of the largest graph whose spectral gap is checked


def expander_edges(nodes: "int | Tensor", degree: int = 6, seed: int = 0, graphs: int | None = None) -> Tensor:
    """A random regular graph with a large spectral gap, as edges both ways, (2, E).

    nodes    how many; or a batch vector (N,): one expander in each graph, which depends on its size and the seed alone
    degree   neighbours of a node, even: degree / 2 random Hamiltonian cycles
    seed     the same seed gives the same edges, on every machine

    Of up to 20 draws the first whose second eigenvalue is within 0.1 of 2 sqrt(degree - 1), the least that a large
    graph can have (Alon and Boppana), else the best. Up to 10 nodes give all pairs. There are no loops; an edge that
    two cycles share counts twice. Friedman 2003; Shirzad et al. 2023.
    """
    whole(degree, "expander_edges", "degree", 2)
    if degree % 2:
        raise ValueError(f"expander_edges(degree={degree}): expected an even number, two for each cycle.")
    if not isinstance(nodes, Tensor):
        whole(nodes, "expander_edges", "nodes", 0)
        return torch.from_numpy(_expander(int(nodes), degree, seed).copy())
    if nodes.ndim != 1 or nodes.is_floating_point():
        raise TypeError(f"expander_edges(nodes={shown(nodes)}): expected a number, or the graph of each node (N,).")
    batch = nodes.cpu()
    size = torch.bincount(batch, minlength=graphs or 0).tolist()
    order = torch.argsort(batch, stable=True)
    parts, start = [], 0
    for count in size:
        parts.append(order[start + torch.from_numpy(_expander(count, degree, seed).copy())])
        start += count
    found = torch.cat(parts, 1) if parts else torch.zeros(2, 0, dtype=torch.long)
    return found.to(nodes.device)


def second_eigenvalue(edge_index: Tensor, nodes: int, steps: int = 100) -> float:
    """The second largest |eigenvalue| of an undirected regular graph, by power iteration (from below).

    A d-regular graph is a good expander where it is near 2 sqrt(d - 1); d is the largest.
    """
    index = edge_index.cpu().numpy()
    return _second(index, nodes, steps)


@lru_cache(maxsize=1024)
def _expander(nodes: int, degree: int, seed: int) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    if nodes <= max(COMPLETE, degree):
        i, j = np.divmod(np.arange(nodes * nodes), max(1, nodes))
        return np.stack([i, j])[:, i != j]
    best, least = None, math.inf
    for attempt in range(TRIES):
        draw = np.random.default_rng([seed & (2**63 - 1), nodes, degree, attempt])
        cycles = [draw.permutation(nodes) for _ in range(degree // 2)]
        one_way = np.concatenate([np.stack([c, np.roll(c, -1)]) for c in cycles], 1)
        both = np.concatenate([one_way, one_way[::-1]], 1)
        if nodes > CHECKED:
            return both
        second = _second(both, nodes, 60)
        if second < least:
            best, least = both, second
        if second <= 2 * math.sqrt(degree - 1) + 0.1:
            break
    assert best is not None
    return best


def _second(index: "np.ndarray[tuple[int, int], np.dtype[np.int64]]", nodes: int, steps: int) -> float:
    if nodes < 2:
        return 0.0
    x: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = np.random.default_rng(0).standard_normal(nodes)
    found = 0.0
    for _ in range(steps):
        x = x - x.mean()
        length = np.linalg.norm(x)
        if length == 0:
            return 0.0
        x = np.bincount(index[1], weights=(x / length)[index[0]], minlength=nodes).astype(np.float64)
        found = float(np.linalg.norm(x - x.mean()))
    return found
