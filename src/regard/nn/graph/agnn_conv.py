"""AGNNConv: attention by cosine similarity."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.arguments import checked

from ..call_checks import reads
from .layer import GraphLayer


class AGNNConv(GraphLayer):
    """Attention by cosine similarity of features, with a learned inverse temperature.

        x'_i = sum_j w_ij x_j,   w_i = softmax_j beta cos(x_i, x_j)

    x (..., N, F), edge_index (2, E) or an adjacency  ->  (..., N, F)

    requires_grad=False keeps beta = 1. return_map=True: (out, AttentionMap).

    Also known as: AGNN.
    Thekumparampil et al. 2018. Arguments and parameters are those of torch_geometric.nn.AGNNConv. Weights are invariant
    to the norms of the features.
    """

    @checked
    def __init__(self, requires_grad: bool = True, add_self_loops: bool = True, **options: Any):
        super().__init__(**options)
        self.requires_grad, self.add_self_loops = requires_grad, add_self_loops
        self.beta: Tensor
        if requires_grad:
            self.beta = nn.Parameter(torch.ones(1))
        else:
            self.register_buffer("beta", torch.ones(1))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.beta)

    @reads()
    def forward(self, x: Tensor, edge_index: Any = None, return_map: bool = False) -> Any:
        graph = self.read(edge_index, x)
        k = F.normalize(x, dim=-1).unsqueeze(-3)  # (..., 1, N, F)
        attended = self.over_edges(k * self.beta.to(k.dtype), k, x.unsqueeze(-3), "dot", graph, self.add_self_loops)
        return self.answer(attended.out.squeeze(-3), attended, graph, self.add_self_loops, None, return_map)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
