"""GatedReadout: a graph as a gated sum of its nodes (GGS-NN)."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.alignments import Sigmoid
from regard.core.arguments import checked
from regard.core.attend import attend
from regard.core.scores import Additive

from ..call_checks import reads
from .input_checks import check_nodes
from .pooling import graphs_of, membership


class GatedReadout(nn.Module):
    """A sigmoid gate for each node and feature, without normalisation, so the result scales with the graph's size.

        h_g = tanh(sum_n sigmoid(i([h_n; x_n])) * tanh(j([h_n; x_n])))

    h (N, F) and x (N, F_0) the initial node features, batch (N,)  ->  (graphs, C); an empty graph gives 0

    return_map=True: (out, AttentionMap), whose edges() are the gates, (1, C, N).

    Li et al. 2016. Before the outer tanh, a graph and its copy side by side give twice the sum (a softmax readout
    gives the same).
    """

    @checked(in_channels=1, x_channels=0)
    def __init__(self, in_channels: int, out_channels: int, x_channels: int = 0):
        super().__init__()
        self.gate = nn.Linear(in_channels + x_channels, out_channels)
        self.value = nn.Linear(in_channels + x_channels, out_channels)

    def reset_parameters(self) -> None:
        self.gate.reset_parameters()
        self.value.reset_parameters()

    @reads()
    def forward(
        self,
        h: Tensor,
        x: Tensor | None = None,
        batch: Tensor | None = None,
        graphs: int | None = None,
        return_map: bool = False,
    ) -> Any:
        width = self.gate.in_features
        check_nodes(self, h, width if x is None else -1, "h", "in_channels=..., x_channels")
        if x is not None:
            check_nodes(self, x, width - h.shape[-1], "x", "in_channels=..., x_channels")
        seen = h if x is None else torch.cat([h, x], -1)
        k, v = self.gate(seen)[None], self.value(seen).tanh()[None]  # (1, N, C)
        batch, graphs = graphs_of(h.shape[0], batch, None, graphs, h.device)
        score = Additive(activation="identity", features=True)  # s = 0 + gate, one for each feature
        q = k.new_zeros(1, graphs, k.shape[-1])
        attended = attend(q, k, v, score, Sigmoid(bias=0.0), over=membership(batch, graphs))
        out = attended.out[0].tanh()
        return (out, attended.map) if return_map else out
