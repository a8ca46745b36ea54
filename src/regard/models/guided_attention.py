"""Attention that is told where to look: a guide's weights, and nothing learned about them."""

from torch import Tensor, nn

from ..core.attend import Attended
from ..core.structures import Structure
from ..data.batch import Batch
from ..nn.attend import Attend
from .features.encoded import Encoded


class Told(nn.Module):
    """The query is where to look: the gold of a batch, (B, n) -> (B, 1, n)."""

    def forward(self, seen: Encoded, batch: Batch) -> Tensor:
        if batch.gold is None or batch.gold.ndim != 2:
            raise ValueError("Told() looks where the gold of a batch says, (B, n), and this batch has none.")
        return batch.gold[:, None]


class Imposed(Attend):
    """The query is the weights: w = q, for queries (..., 1, m) that are 0 or more; no gradient leads into them.

    They are put in as scores log q and aligned by softmax, so that a row which does not sum to one is made to.
    """

    def __init__(self, d_k: int):
        super().__init__(None, d_k, score=None)

    def forward(  # type: ignore[override]
        self, query: Tensor, keys: Tensor, over: Structure | None = None
    ) -> Attended:
        return super().forward(None, keys, over=over, scores=query.detach().to(keys.dtype).log())
