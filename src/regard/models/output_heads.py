"""Output heads of task models: from the context to a prediction."""

from torch import Tensor, cat, nn

from ..data.batch import Batch
from .features.encoded import Encoded
from .features.patches import joined


class Classes(nn.Module):
    """Logits: context (B, m, d) -> (B, classes), from the m concatenated contexts; hidden: width of a hidden layer;
    norm: layer normalisation of the contexts."""

    def __init__(
        self, dim: int, classes: int, contexts: int = 1, hidden: int = 0, dropout: float = 0.0, norm: bool = False
    ):
        super().__init__()
        self.norm = nn.LayerNorm(contexts * dim) if norm else nn.Identity()
        first = [nn.Linear(contexts * dim, hidden), nn.ReLU(), nn.Dropout(dropout)] if hidden else []
        self.layers = nn.Sequential(nn.Dropout(dropout), *first, nn.Linear(hidden or contexts * dim, classes))

    def forward(self, context: Tensor, query: Tensor, encoded: Encoded, batch: Batch) -> Tensor:
        if batch.graph is not None and context.shape[0] == 1:  # one context a graph
            context = context.transpose(0, 1)
        return self.layers(self.norm(context.flatten(1)))


class Number(Classes):
    """Regression: (B,)."""

    def __init__(self, dim: int, contexts: int = 1, hidden: int = 0, dropout: float = 0.0):
        super().__init__(dim, 1, contexts, hidden, dropout)

    def forward(self, context: Tensor, query: Tensor, encoded: Encoded, batch: Batch) -> Tensor:
        return super().forward(context, query, encoded, batch).squeeze(-1)


class NodeClasses(nn.Module):
    """Logits of every node, from its features plus its context (1, N, d) -> (N, classes)."""

    def __init__(self, dim: int, classes: int, dropout: float = 0.0):
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(dim), nn.Dropout(dropout), nn.Linear(dim, classes))

    def forward(self, context: Tensor, query: Tensor, encoded: Encoded, batch: Batch) -> Tensor:
        return self.layers(encoded.values[0] + context[0])


class Pixels(nn.Module):
    """An image: each patch is predicted from its features and its context -> (B, 1, side, side)."""

    def __init__(self, dim: int, side: int, patch: int, hidden: int = 0):
        super().__init__()
        self.side, self.patch = side, patch
        wide = hidden or 2 * dim
        self.layers = nn.Sequential(
            nn.LayerNorm(2 * dim), nn.Linear(2 * dim, wide), nn.GELU(), nn.Linear(wide, patch * patch)
        )

    def forward(self, context: Tensor, query: Tensor, encoded: Encoded, batch: Batch) -> Tensor:
        return joined(self.layers(cat([encoded.values, context], -1)), self.side, self.patch)
