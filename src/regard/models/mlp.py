"""An MLP on node features, the baseline without edges."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from ..nn.graph.features import dropped
from ..nn.graph.linear import linear


class MLP(nn.Module):
    """Two linear layers with dropout on their inputs and an ELU between; same call as models.GAT, ignoring the graph.

    x (N, nfeat), dense or torch.sparse  ->  log-probabilities (N, nclass)
    """

    def __init__(self, nfeat: int, nhid: int, nclass: int, dropout: float = 0.6):
        super().__init__()
        self.dropout = dropout
        self.first = linear(nfeat, nhid)
        self.second = linear(nhid, nclass)

    def forward(self, x: Tensor, adj: Any = None) -> Tensor:
        x = F.elu(self.first(dropped(x, self.dropout, self.training)))
        return F.log_softmax(self.second(dropped(x, self.dropout, self.training)), -1)
