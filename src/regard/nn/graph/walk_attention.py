"""WalkAttention: attention over the lengths of random walks."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.arguments import checked
from regard.core.attend import attend

from ..call_checks import reads
from .layer import GraphLayer


class WalkAttention(GraphLayer):
    """Features after 1, 2, ... steps of a random walk, averaged with a learned softmax weight for each length.

        x' = sum_k a_k T^k x,   a = softmax(logits),   T = the walk's transition matrix

    x (..., N, F), edge_index (2, E) or an adjacency  ->  (..., N, F)

    A step goes from a node to one of its sources, uniformly: uniform attention over edges. add_self_loops makes the
    walk lazy; start=0 includes x itself as length 0.
    return_weights=True: (out, a).

    Abu-El-Haija et al. 2018 (Watch Your Step), as a layer: the walk family in Lee et al.'s survey of attention in
    graphs. a sums to 1; with all its weight on length 1 the result is the mean of the neighbours.
    """

    @checked(start=0)
    def __init__(self, length: int, start: int = 1, add_self_loops: bool = False, **options: Any):
        super().__init__(align="uniform", **options)
        if not 0 <= start <= length:
            raise ValueError(f"WalkAttention(length={length}, start={start}): expected 0 <= start <= length.")
        self.length, self.start, self.add_self_loops = length, start, add_self_loops
        self.logits = nn.Parameter(torch.zeros(length + 1 - start))

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.logits)

    @reads()
    def forward(self, x: Tensor, edge_index: Any = None, return_weights: bool = False) -> Any:
        graph = self.read(edge_index, x)
        walked = [x] if self.start == 0 else []
        at = x.unsqueeze(-3)
        nothing = at[..., :1] * 0
        for step in range(1, self.length + 1):
            at = self.over_edges(nothing, nothing, at, "dot", graph, self.add_self_loops).out
            if step >= self.start:
                walked.append(at.squeeze(-3))
        each = torch.stack(walked)  # (lengths, ..., N, F)
        attended = attend(each.new_ones(1, 1), self.logits.to(each.dtype)[:, None], each.flatten(1), "dot")
        out = attended.out.view_as(x)
        return (out, attended.map.row(0)) if return_weights else out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.length}, start={self.start})"
