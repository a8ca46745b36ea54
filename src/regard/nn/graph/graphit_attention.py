"""GraphiTAttention: attention weighted by a kernel of the graph."""

from typing import Any

from torch import Tensor, nn

from regard.core.arguments import checked, shown
from regard.core.errors import values_are_checked
from regard.core.modifiers import EdgeBias
from regard.core.scores import ScaledDot

from ..call_checks import reads
from .layer import GraphLayer
from .linear import heads_first, heads_last


class GraphiTAttention(GraphLayer):
    """Softmax attention between nodes, with exp(score) multiplied by a positional kernel of the graph.

        x'_i = W_o sum_j w_ij V x_j,   w_ij = K_ij exp(q_i . q_j / sqrt(C)) / sum_l K_il exp(q_i . q_l / sqrt(C))

    x (N, channels), edge_index (2, P) pairs, kernel (P,) their K_ij > 0, from `diffusion_kernel` or `walk_kernel`
    ->  (N, channels)

    shared       queries and keys share a projection, as in the paper, which makes the kernel on features symmetric
    degree       (N,): the output of a node is divided by the square root of its degree, as in the paper's blocks
    return_map   (out, AttentionMap); map.edges() stands on the pairs

    Also known as: GraphiT, kernel attention, positional kernel.
    Mialon et al. 2021. log K is a bias of the score: a kernel that is 1 everywhere leaves plain attention.
    """

    @checked
    def __init__(
        self,
        channels: int,
        heads: int = 4,
        shared: bool = True,
        dropout: float = 0.0,
        bias: bool = False,
        **options: Any,
    ):
        super().__init__(dropout, **options)
        if channels % heads:
            raise ValueError(f"GraphiTAttention(channels={channels}, heads={heads}): expected a multiple of heads.")
        self.channels, self.heads = channels, heads
        self.lin_query, self.lin_value, self.lin_out = (nn.Linear(channels, channels, bias) for _ in range(3))
        self.lin_key = None if shared else nn.Linear(channels, channels, bias)

    def reset_parameters(self) -> None:
        self.begin((self.lin_query, self.lin_key, self.lin_value, self.lin_out))

    @reads()
    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        kernel: Tensor | None = None,
        degree: Tensor | None = None,
        return_map: bool = False,
    ) -> Any:
        graph = self.read(edge_index, x)
        pairs = graph.index.shape[1]
        if not isinstance(kernel, Tensor) or not kernel.is_floating_point() or tuple(kernel.shape) != (pairs,):
            raise ValueError(
                f"GraphiTAttention: kernel is {shown(kernel)}, expected a number above 0 for each of {pairs} pairs: "
                "conv(x, *diffusion_kernel(edge_index, nodes))."
            )
        if values_are_checked(kernel) and pairs and not bool((kernel > 0).all()):
            raise ValueError("GraphiTAttention: kernel has values that are not positive: leave these pairs out.")
        q = heads_first(self.lin_query(x), self.heads)
        k = q if self.lin_key is None else heads_first(self.lin_key(x), self.heads)
        v = heads_first(self.lin_value(x), self.heads)
        attended = self.over_edges(q, k, v, ScaledDot() | EdgeBias(kernel.log().to(x.dtype)), graph)
        out = self.lin_out(heads_last(attended.out))
        if degree is not None:
            out = out * degree.to(out.dtype).clamp_min(1).rsqrt()[:, None]
        return (out, attended.map) if return_map else out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads})"
