"""Guided attention: weights from a guide, without learned parameters."""

from torch import Tensor, nn

from ..core.attend import Attended
from ..core.structures import Structure
from ..data.batch import Batch
from ..nn.attend import Attend
from .features.encoded import Encoded


class GoldQuery(nn.Module):
    """The gold weights of a batch as the query: (B, n) -> (B, 1, n)."""

    def forward(self, encoded: Encoded, batch: Batch) -> Tensor:
        if batch.gold is None or batch.gold.ndim != 2:
            raise ValueError("GoldQuery() needs gold weights (B, n) in the batch, and this batch has none.")
        return batch.gold[:, None]


class GuidedAttention(Attend):
    """The query is the weights: w = q, for queries (..., 1, m) that are 0 or more; without gradients into them.

    They enter as scores log q under a softmax, which normalises each row.
    """

    def __init__(self, d_k: int):
        super().__init__(None, d_k, score=None)

    def forward(  # type: ignore[override]
        self, query: Tensor, keys: Tensor, over: Structure | None = None
    ) -> Attended:
        return super().forward(None, keys, over=over, scores=query.detach().to(keys.dtype).log())
