"""Positional kernels of a graph: the diffusion kernel and the random walk kernel."""

import torch
from torch import Tensor

from regard.core.arguments import number, whole

from .input_checks import check_ids_of_edges
from .same_graph_pairs import blocks_of, same_graph_pairs


def diffusion_kernel(
    edge_index: Tensor, nodes: int, beta: float = 1.0, batch: Tensor | None = None, graphs: int | None = None
) -> tuple[Tensor, Tensor]:
    """The diffusion (heat) kernel at time beta.

        K = exp(-beta L),   L = I - D^-1/2 A D^-1/2

    edge_index (2, E) of an undirected graph, batch (N,)  ->  pairs (2, P) and their K > 0 (P,), for `GraphiTAttention`

    Kondor and Lafferty 2002. Pairs without a path between them are left out.
    """
    number(beta, "diffusion_kernel", "beta", 0)
    laplacian, pairs, place = _laplacian(edge_index, nodes, batch, graphs)
    return _above_zero(pairs, torch.linalg.matrix_exp(-beta * laplacian)[place])


def walk_kernel(
    edge_index: Tensor,
    nodes: int,
    steps: int = 3,
    gamma: float = 0.5,
    batch: Tensor | None = None,
    graphs: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The p-step random walk kernel; pairs farther apart than `steps` are left out.

        K = (I - gamma L)^steps,   L = I - D^-1/2 A D^-1/2,   0 < gamma <= 1

    edge_index (2, E) of an undirected graph, batch (N,)  ->  pairs (2, P) and their K > 0 (P,), for `GraphiTAttention`

    Smola and Kondor 2003.
    """
    whole(steps, "walk_kernel", "steps")
    number(gamma, "walk_kernel", "gamma", 0, 1)
    laplacian, pairs, place = _laplacian(edge_index, nodes, batch, graphs)
    stay = torch.eye(laplacian.shape[-1], dtype=laplacian.dtype, device=laplacian.device) - gamma * laplacian
    return _above_zero(pairs, torch.linalg.matrix_power(stay, steps)[place])


def _laplacian(
    edge_index: Tensor, nodes: int, batch: Tensor | None, graphs: int | None
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    check_ids_of_edges(torch.nn.Identity(), edge_index)
    pairs = same_graph_pairs(nodes, batch, graphs).to(edge_index.device)
    adjacency, place = blocks_of(edge_index, pairs, nodes, batch, graphs)
    degree = adjacency.sum(-1)
    root = degree.clamp_min(1).rsqrt()
    own = torch.diag_embed((degree > 0).to(adjacency.dtype))  # isolated nodes
    return own - root[..., :, None] * adjacency * root[..., None, :], pairs, place


def _above_zero(pairs: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    keep = values > torch.finfo(torch.float32).tiny
    return pairs[:, keep], values[keep].float()
