"""PolynormerAttention: linear attention whose output gates the features."""

from typing import Any

from torch import Tensor, nn

from regard.core.arguments import checked, number
from regard.core.factored import factored_attend

from ..call_checks import reads
from .input_checks import check_nodes
from .pooling import graphs_of

EPS = 1e-6  # of the normaliser, as in torch_geometric


class PolynormerAttention(nn.Module):
    """Linear attention over all nodes with a sigmoid kernel; the output gates a linear map of the features.

        x' = relu(W_o [LayerNorm(a) * (W_h x + beta)] + b),   a_i = sum_j w_ij W_v x_j
        w_ij = s(W_q x_i) . s(W_k x_j) / sum_l s(W_q x_i) . s(W_k x_l),   s the sigmoid

    x (N, channels), batch (N,) the graph of each node, in any order (one graph unless given)  ->  (N, heads C)

    qk_shared    W_q = W_k, as in the paper
    dropout      on the result, in training mode
    return_map   (out, AttentionMap) of w

    Also known as: Polynormer.
    Deng et al. 2024. Arguments and parameters are those of torch_geometric.nn.attention.PolynormerAttention, whose
    normaliser counts the padding of a batch; here each graph has its own. A stack of L layers is a polynomial of degree
    2^L in the features.
    """

    @checked
    def __init__(
        self,
        channels: int,
        heads: int = 1,
        head_channels: int = 64,
        beta: float = 0.9,
        qkv_bias: bool = False,
        qk_shared: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.channels, self.heads, self.head_channels, self.qk_shared = channels, heads, head_channels, qk_shared
        self.beta = number(beta, "PolynormerAttention", "beta")
        width = heads * head_channels
        self.h_lins = nn.Linear(channels, width)
        if not qk_shared:
            self.q = nn.Linear(channels, width, bias=qkv_bias)
        self.k, self.v = (nn.Linear(channels, width, bias=qkv_bias) for _ in range(2))
        self.lns, self.lin_out = nn.LayerNorm(width), nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        for part in self.children():
            if isinstance(part, nn.Linear | nn.LayerNorm):
                part.reset_parameters()

    @reads()
    def forward(
        self, x: Tensor, batch: Tensor | None = None, graphs: int | None = None, return_map: bool = False
    ) -> Any:
        check_nodes(self, x, self.channels, by="channels")
        ids, count = graphs_of(x.shape[-2], batch, None, graphs, x.device)
        k, v = self._heads(self.k(x).sigmoid()), self._heads(self.v(x))
        q = k if self.qk_shared else self._heads(self.q(x).sigmoid())
        attended = factored_attend(q, k, v, ids=None if batch is None else ids, count=count, eps=EPS, signed=False)
        found = attended.out.movedim(-3, -1).flatten(
            -2
        )  # features of a head are interleaved with stride `heads`, as in torch_geometric
        out = self.dropout(self.lin_out(self.lns(found) * (self.h_lins(x) + self.beta)).relu())
        return (out, attended.map) if return_map else out

    def _heads(self, x: Tensor) -> Tensor:
        """(..., N, C H) -> (..., H, N, C)."""
        return x.unflatten(-1, (self.head_channels, self.heads)).movedim(-1, -3)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads}, head_channels={self.head_channels})"
