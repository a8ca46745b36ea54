"""DeepGNN: any number of layers of one kind, to separate the effect of attention from that of depth."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from ..nn.graph import GATConv, GATv2Conv
from ..nn.graph.features import dropped
from ..nn.graph.linear import linear
from .gcn import GCNConv

KINDS = ("gat", "gatv2", "gcn", "mean", "mlp")


class DeepGNN(nn.Module):
    """A linear map, `layers` layers of one kind, each followed by ELU, and a linear classifier.

        h_0 = elu(W x),   h_l = elu(layer(h_(l-1))) (+ h_(l-1)),   log p = log_softmax(V h_L)

    x (N, nfeat) dense or sparse, edge_index (2, E)  ->  log-probabilities (N, nclass)

    kind      gat, gatv2: attention; mean: the same with uniform weights; gcn: weights by degree; mlp: no edges
    residual  residual connections
    All layers have the same width and self-loops. `hidden` returns the output of every layer.
    """

    def __init__(
        self,
        nfeat: int,
        width: int,
        nclass: int,
        kind: str = "gat",
        layers: int = 2,
        heads: int = 1,
        dropout: float = 0.0,
        residual: bool = False,
    ):
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"DeepGNN(kind={kind!r}): expected one of {', '.join(KINDS)}.")
        if width % heads:
            raise ValueError(f"DeepGNN(width={width}, heads={heads}): expected a multiple of heads.")
        self.dropout, self.residual = dropout, residual
        self.entrance = linear(nfeat, width)
        self.layers = nn.ModuleList(_layer(kind, width, heads) for _ in range(layers))
        self.answer = linear(width, nclass)

    def hidden(self, x: Tensor, edge_index: Any) -> list[Tensor]:
        """h_0, h_1, ..., each (N, width)."""
        made = [F.elu(self.entrance(dropped(x, self.dropout, self.training)))]
        for layer in self.layers:
            given = dropped(made[-1], self.dropout, self.training)
            heard = F.elu(layer(given) if isinstance(layer, nn.Linear) else layer(given, edge_index))
            made.append(heard + made[-1] if self.residual else heard)
        return made

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        last = dropped(self.hidden(x, edge_index)[-1], self.dropout, self.training)
        return F.log_softmax(self.answer(last), -1)


def _layer(kind: str, width: int, heads: int) -> nn.Module:
    if kind == "mlp":
        return linear(width, width)
    if kind == "gcn":
        return GCNConv(width, width)
    if kind == "gatv2":
        return GATv2Conv(width, width // heads, heads=heads)
    return GATConv(width, width // heads, heads=heads, align="uniform" if kind == "mean" else "softmax")
