"""GRU or LSTM over the vectors of another feature model."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.core.structures import Padding
from regard.data.batch import Batch

from .encoded import Encoded

KINDS: dict[str, Any] = {"gru": nn.GRU, "lstm": nn.LSTM}


class Recurrent(nn.Module):
    """Bidirectional by default: values (B, n, dim), dim = 2 width; summary (B, dim), the last states.

    before    a feature model with values (B, n, d)
    thin      subsample states by this factor after each layer but the last (audio has many frames)
    marks     learned start and end vectors around the words; their states are not among the values, so they
              cannot be attended

    Padding is skipped: the backward direction starts at the last word.
    """

    def __init__(
        self,
        before: Any,
        width: int,
        kind: str = "gru",
        layers: int = 1,
        both: bool = True,
        dropout: float = 0.0,
        thin: int = 1,
        marks: bool = False,
    ):
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"Recurrent(kind={kind!r}): expected one of {', '.join(KINDS)}.")
        if marks and thin > 1:
            raise ValueError(f"Recurrent(marks=True, thin={thin}): marks= needs thin=1.")
        self.before, self.width, self.thin = before, width, thin
        self.marks = nn.Parameter(torch.randn(2, before.dim)) if marks else None
        self.dim = 2 * width if both else width
        sizes = [before.dim, *[self.dim] * (layers - 1)]
        self.layers = nn.ModuleList(KINDS[kind](size, width, bidirectional=both, batch_first=True) for size in sizes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch) -> Encoded:
        encoded = self.before(batch)
        values, lengths = encoded.values, batch.lengths
        if self.marks is not None:
            values, lengths = framed(values, lengths, self.marks), lengths + 2
        for place, layer in enumerate(self.layers):
            if place and self.thin > 1:
                values, lengths = values[:, :: self.thin], (lengths + self.thin - 1) // self.thin
            values, summary = run(layer, values, lengths)
            values = self.dropout(values)
        if self.marks is not None:
            return Encoded(values[:, 1:-1], encoded.items, encoded.over, summary, encoded.real)
        over = encoded.over if self.thin == 1 else Padding(lengths)
        real = torch.arange(values.shape[1], device=values.device) < lengths[:, None]
        return Encoded(values, encoded.items, over, summary, real)


def framed(values: Tensor, lengths: Tensor, marks: Tensor) -> Tensor:
    """(B, n, d) and marks (2, d) -> (B, n + 2, d): the first mark, the sequence without padding, the second mark."""
    first, last = (mark.expand(values.shape[0], 1, -1) for mark in marks.to(values.dtype))
    longer = torch.cat([first, values, last], 1)
    place = torch.arange(longer.shape[1], device=values.device)
    return torch.where((place == lengths[:, None] + 1)[..., None], last, longer)


def run(layer: Any, values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """States (B, n, directions * width), zero where padded, and the last states (B, directions * width)."""
    packed = pack_padded_sequence(values, lengths.cpu(), batch_first=True, enforce_sorted=False)
    states, last = layer(packed)
    last = last[0] if isinstance(last, tuple) else last
    out, _ = pad_packed_sequence(states, batch_first=True, total_length=values.shape[1])
    return out, last.transpose(0, 1).flatten(1)
