"""Output models: from what was read to an answer."""

from torch import Tensor, cat, nn

from ..data.batch import Batch
from .features.encoded import Encoded
from .features.patches import joined


class Classes(nn.Module):
    """Logits: context (B, m, d) -> (B, classes), from all m contexts side by side; hidden: a layer in between; norm:
    how large a context is does not count."""

    def __init__(
        self, dim: int, classes: int, asks: int = 1, hidden: int = 0, dropout: float = 0.0, norm: bool = False
    ):
        super().__init__()
        self.norm = nn.LayerNorm(asks * dim) if norm else nn.Identity()
        first = [nn.Linear(asks * dim, hidden), nn.ReLU(), nn.Dropout(dropout)] if hidden else []
        self.layers = nn.Sequential(nn.Dropout(dropout), *first, nn.Linear(hidden or asks * dim, classes))

    def forward(self, context: Tensor, query: Tensor, seen: Encoded, batch: Batch) -> Tensor:
        if batch.graph is not None and context.shape[0] == 1:  # one context a graph
            context = context.transpose(0, 1)
        return self.layers(self.norm(context.flatten(1)))


class Number(Classes):
    """One number: (B,)."""

    def __init__(self, dim: int, asks: int = 1, hidden: int = 0, dropout: float = 0.0):
        super().__init__(dim, 1, asks, hidden, dropout)

    def forward(self, context: Tensor, query: Tensor, seen: Encoded, batch: Batch) -> Tensor:
        return super().forward(context, query, seen, batch).squeeze(-1)


class NodeClasses(nn.Module):
    """Logits for every node, from what it is and what it has read: context (1, N, d) -> (N, classes)."""

    def __init__(self, dim: int, classes: int, dropout: float = 0.0):
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(dim), nn.Dropout(dropout), nn.Linear(dim, classes))

    def forward(self, context: Tensor, query: Tensor, seen: Encoded, batch: Batch) -> Tensor:
        return self.layers(seen.values[0] + context[0])


class Pixels(nn.Module):
    """An image again: each patch is painted from what it is and what it has read -> (B, 1, side, side)."""

    def __init__(self, dim: int, side: int, patch: int, hidden: int = 0):
        super().__init__()
        self.side, self.patch = side, patch
        wide = hidden or 2 * dim
        self.layers = nn.Sequential(
            nn.LayerNorm(2 * dim), nn.Linear(2 * dim, wide), nn.GELU(), nn.Linear(wide, patch * patch)
        )

    def forward(self, context: Tensor, query: Tensor, seen: Encoded, batch: Batch) -> Tensor:
        return joined(self.layers(cat([seen.values, context], -1)), self.side, self.patch)
