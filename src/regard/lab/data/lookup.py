"""DictionaryLookup: a planted task in which each node needs another neighbour."""

from dataclasses import dataclass
from math import factorial

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Lookup:
    """Disjoint graphs of 2k nodes: k query nodes (key) and k value nodes (key, value), completely connected.

    key (N,) in 0..k-1, value (N,) in 0..k-1 and k for "none", edge_index (2, G k^2) value nodes to query nodes,
    asks (N,) bool; y (G k,) the values asked for, in the order of the askers; answer (G k,) the edge that leads there.
    """

    k: int
    key: Tensor
    value: Tensor
    edge_index: Tensor
    asks: Tensor
    y: Tensor
    answer: Tensor


def dictionary_lookup(k: int, graphs: int, seed: int = 0, held_out: int = 0) -> tuple[Lookup, Lookup]:
    """`graphs` dictionaries of k words to learn from and `held_out` others; no two are the same.

    A query node must attend the neighbour with the same key: `answer` is that edge. A static score, which ranks the
    neighbours alike for all queries (GAT), is right for one query in k and guesses the rest.

    Brody, Alon and Yahav 2022.
    """
    if k < 2 or graphs < 1 or held_out < 0:
        raise ValueError(
            f"dictionary_lookup(k={k}, graphs={graphs}, held_out={held_out}): expected k >= 2, "
            "graphs >= 1 and held_out >= 0."
        )
    wanted = graphs + held_out
    if k < 13 and wanted > factorial(k):
        raise ValueError(
            f"dictionary_lookup(k={k}): there are {factorial(k)} dictionaries of {k} words, not {wanted}: "
            "take a larger k or fewer graphs."
        )
    draw = torch.Generator().manual_seed(seed)
    seen: dict[tuple[int, ...], None] = {}
    while len(seen) < wanted:
        seen[tuple(torch.randperm(k, generator=draw).tolist())] = None
    tables = torch.tensor(list(seen))
    return _union(tables[:graphs]), _union(tables[graphs:])


def _union(tables: Tensor) -> Lookup:
    graphs, k = tables.shape
    key = torch.arange(k).repeat(2 * graphs)
    none = torch.full_like(tables, k)
    first = 2 * k * torch.arange(graphs)[:, None, None]
    asker, knower = torch.arange(k)[:, None].expand(k, k), torch.arange(k).expand(k, k)
    edges = torch.stack([(first + k + knower).flatten(), (first + asker).flatten()])
    answer = k * k * torch.arange(graphs)[:, None] + torch.arange(k) * (k + 1)
    asks = torch.arange(2 * k).repeat(graphs) < k
    return Lookup(k, key, torch.cat([none, tables], 1).flatten(), edges, asks, tables.flatten(), answer.flatten())
