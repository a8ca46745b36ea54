"""A training step of the two-layer GAT on a graph of Cora's size, beside torch_geometric's layers.

The whole step: dropout of the features, both layers, the loss of 140 nodes, backward, Adam. The features are a bag of
words, one entry in eighty, given as torch.sparse and dense. The peer is the same network of torch_geometric's GATConv;
its dropout of sparse features drops the entries, as ours does.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models import GAT

from .measure import BenchResult, by_turns, measure_memory

NODES, FEATURES, ENTRIES, EDGES, CLASSES, LABELS = 2708, 1433, 49_216, 10_556, 7, 140
TIMES = 2.5  # how much faster a step with sparse features is to be on two cores


def training_steps(peers: bool = True) -> list[BenchResult]:
    """Milliseconds a step on a CPU, sparse features first."""
    x, edge_index, y = _papers()
    found = []
    for name, features in (("sparse", x.to_sparse()), ("dense", x)):
        torch.manual_seed(0)
        run = _step(GAT(FEATURES, 8, CLASSES, 0.6), features, edge_index, y)
        theirs = _peer() if peers else None
        other = None if theirs is None else _step(theirs, features, edge_index, y)
        mine, peer = by_turns(run, other or run, 15, calls=5)
        result = BenchResult(f"training step, cora size, GAT 8x8 -> 7, {name} features", "ms", mine * 1e3, None, "", "")
        if theirs is not None:
            result.peer, result.peer_name = peer * 1e3, "torch_geometric"
            if name == "sparse":
                result.bar, result.held = f"{TIMES:g} times faster than torch_geometric", mine * TIMES <= peer
        found.append(measure_memory(result, run, other))
    return found


def _papers() -> tuple[Tensor, Tensor, Tensor]:
    """Features (N, F), edge_index (2, E) with both directions of each edge, classes (N,)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.zeros(NODES * FEATURES)
    x[torch.randperm(NODES * FEATURES, generator=generator)[:ENTRIES]] = NODES / ENTRIES
    source = torch.randint(0, NODES, (EDGES // 2,), generator=generator)
    target = (torch.rand(EDGES // 2, generator=generator) ** 2.5 * NODES).long()
    pairs = torch.stack([source, target])
    classes = torch.randint(0, CLASSES, (NODES,), generator=generator)
    return x.view(NODES, FEATURES), torch.cat([pairs, pairs.flip(0)], 1), classes


def _step(model: nn.Module, x: Tensor, edge_index: Tensor, y: Tensor) -> Callable[[], None]:
    optimiser = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
    known = torch.arange(LABELS)
    model.train()

    def run() -> None:
        optimiser.zero_grad()
        F.nll_loss(model(x, edge_index)[known], y[known]).backward()
        optimiser.step()

    return run


def _peer() -> nn.Module | None:
    try:
        from torch_geometric.nn import GATConv
    except ModuleNotFoundError:
        return None

    class Peer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = GATConv(FEATURES, 8, heads=8, dropout=0.6)
            self.second = GATConv(64, CLASSES, heads=1, concat=False, dropout=0.6)

        def forward(self, x: Tensor, edge_index: Tensor) -> Any:
            if x.layout == torch.strided:
                x = F.dropout(x, 0.6)
            else:
                kept = F.dropout(x.values(), 0.6)
                x = torch.sparse_coo_tensor(x.indices(), kept, x.shape, is_coalesced=True, check_invariants=False)
            x = F.dropout(F.elu(self.first(x, edge_index)), 0.6)
            return F.log_softmax(self.second(x, edge_index), -1)

    return Peer()
