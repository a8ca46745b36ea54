"""The output of a feature model."""

from dataclasses import dataclass

from torch import Tensor

from regard.core.maps.attention_map import AttentionMap
from regard.core.structures import Full, Padding, Structure


@dataclass(eq=False)
class Encoded:
    """values (B, n, d), or (1, N, d) for concatenated graphs; over: their padding mask, or the graph of each.

    summary   (B, d_s) the summary of the feature model (last states of an RNN), else None
    items     number of predictions: B, or the number of graphs
    maps      of the feature model, if it has attention
    """

    values: Tensor
    items: int
    over: Structure = Full()  # noqa: RUF009 a frozen value
    summary: Tensor | None = None
    real: Tensor | None = None
    maps: tuple[AttentionMap, ...] = ()

    def mean(self) -> Tensor:
        """(B, d): the mean over values that are not padding."""
        if self.real is None:
            return self.values.mean(1)
        kept = self.values.masked_fill(~self.real[..., None], 0.0)
        return kept.sum(1) / self.real.sum(1, keepdim=True).clamp_min(1)

    def reorder(self, index: Tensor) -> "Encoded":
        """Item b becomes item index[b]: surviving beams in their new order."""
        if self.real is None:
            over = self.over
        else:
            over = Padding(self.real.sum(1).index_select(0, index))
        return Encoded(
            self.values.index_select(0, index),
            len(index),
            over,
            None if self.summary is None else self.summary.index_select(0, index),
            None if self.real is None else self.real.index_select(0, index),
        )

    chosen = reorder  # the name until 0.3
