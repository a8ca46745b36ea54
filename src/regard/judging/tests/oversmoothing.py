"""How alike the nodes of a graph have become, and from how far a node can be moved: two things, measured apart."""

from collections.abc import Callable

import torch
from torch import Tensor


def spread(h: Tensor) -> float:
    """|H - 1 mean(H)|_F / |H|_F of features h (N, d): 0 where all nodes are the same, 1 where they cancel out.

    Relative to the size of the features, which layers change; 0 for features that are all 0. After Wu et al. 2023.
    """
    h = h.detach().double()
    size = float(h.norm())
    return float((h - h.mean(0)).norm()) / size if size > 0 else 0.0


def dirichlet(h: Tensor, edge_index: Tensor) -> float:
    """Dirichlet energy, relative: mean over edges of |h_i - h_j|^2 / 2, by the mean of |h_i|^2 over nodes.

    Without degrees in it: the form that divides by them is not 0 at equal features where degrees differ. 0 without
    edges. Rusch et al. 2023.
    """
    h = h.detach().double()
    size = float(h.square().sum(-1).mean())
    if size == 0 or edge_index.shape[1] == 0:
        return 0.0
    return float((h[edge_index[0]] - h[edge_index[1]]).square().sum(-1).mean()) / 2 / size


def mad(h: Tensor, edge_index: Tensor) -> float:
    """Mean average distance: 1 - cosine of each pair of neighbours, the mean over each node's, then over nodes.

    From 0 (all point the same way) to 2; edges with a node of zero length and nodes without an edge are left out; 0
    where nothing is left. Chen et al. 2020.
    """
    h = h.detach().double()
    unit, there = torch.nn.functional.normalize(h, dim=-1), h.norm(dim=-1) > 0
    source, target = edge_index
    some = there[source] & there[target]
    source, target = source[some], target[some]
    if source.numel() == 0:
        return 0.0
    each = 1 - (unit[source] * unit[target]).sum(-1)
    total, count = (torch.zeros(h.shape[0], dtype=torch.float64, device=h.device) for _ in range(2))
    total.index_add_(0, target, each)
    count.index_add_(0, target, torch.ones_like(each))
    return float((total / count.clamp_min(1))[count > 0].mean())


def influence(run: Callable[[Tensor], Tensor], x: Tensor, node: int) -> Tensor:
    """(N,): |d out_node / d x_j|_F of each node j, by run(x (N, F)) -> (N, d). Exactly 0 where nothing can be heard.

    Xu et al. 2018.
    """
    x = x.detach().clone().requires_grad_()
    out = run(x)[node]
    made = torch.zeros(x.shape[0], dtype=torch.float64, device=x.device)
    for part in out:
        (found,) = torch.autograd.grad(part, x, retain_graph=True)
        made += found.double().square().sum(-1)
    return made.sqrt()
