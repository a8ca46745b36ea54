"""Multi-representational attention: each token attends over several embeddings of itself."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended
from regard.core.scores import QueryFree
from regard.core.structures import Mask

from ..attend import Attend, ScoreLike


class MultiRepresentationalAttention(nn.Module):
    """A token has several embeddings; attention over them, not over tokens, makes one of them.

        t_e = W_e x_e + b_e,   y = sum_e w_e t_e,   w = align over the embeddings e of score(t_e)

    embeddings: a list of tensors (..., n, dims[e])  ->  out (..., n, dim); map (..., n, 1, 1, E)

    present   bool (..., n, E): False where a token is not in a vocabulary; in none of them: 0
    score     "query_free" (the survey), "dme" (linear, two units), "cdme" (a BiLSTM of two units along the sentence,
              for each embedding separately, then linear), or any other with a learned query

    Also known as: DME, CDME, dynamic meta-embeddings.
    Kiela et al. 2018 (DME, CDME); sigmoid gates: align=Sigmoid(0.0). Weights sum to one over embeddings. Where all t_e
    are equal, so is the output, whatever the weights.
    """

    @checked
    def __init__(
        self,
        dims: Sequence[int],
        dim: int,
        *,
        score: ScoreLike = "query_free",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        if not dims:
            raise ValueError("MultiRepresentationalAttention(dims=[]): expected the width of one embedding or more.")
        self.project = nn.ModuleList(nn.Linear(width, dim) for width in dims)
        self.along: nn.LSTM | None = None
        if score == "cdme":
            self.along = nn.LSTM(dim, 2, batch_first=True, bidirectional=True)
            self.read = nn.Linear(4, 1)
        made: ScoreLike | None = QueryFree(dim, 2, activation="identity") if score == "dme" else score
        self.choice = Attend(None, dim, None if score == "cdme" else made, align, dropout)

    def forward(self, embeddings: Sequence[Tensor], present: Tensor | None = None) -> Attended:
        if len(embeddings) != len(self.project):
            raise ValueError(
                f"{len(embeddings)} embeddings were given, expected {len(self.project)}: one for each of dims=."
            )
        there = [None if present is None else present[..., e, None] for e in range(len(embeddings))]
        given = [x if keep is None else x.masked_fill(~keep, 0.0) for x, keep in zip(embeddings, there, strict=True)]
        t = torch.stack([part(x) for part, x in zip(self.project, given, strict=True)], -2)  # (..., n, E, dim)
        over = None if present is None else Mask(keep=present[..., None, None, :])
        scores = None if self.along is None else self._along(t, present).unsqueeze(-2)
        found = self.choice(None, t, over=over, scores=scores)
        return Attended(found.out.squeeze(-2), found.map, found.sample, found.state)

    def _along(self, t: Tensor, present: Tensor | None) -> Tensor:
        """CDME's scores (..., n, E): the BiLSTM stops at the last token that has any embedding."""
        assert self.along is not None
        lead, (n, count, dim) = t.shape[:-3], t.shape[-3:]
        if t.numel() == 0:
            return t.new_zeros(*lead, n, count)
        lines = t.movedim(-2, -3)  # (..., E, n, dim)
        if present is None:
            ends = torch.full((lead.numel(),), n)
        else:
            lines = lines.masked_fill(~present.transpose(-1, -2)[..., None], 0.0)
            places = torch.arange(1, n + 1, device=t.device) * present.any(-1)
            ends = places.amax(-1).clamp_min(1).reshape(-1).cpu()
        packed = pack_padded_sequence(lines.reshape(-1, n, dim), ends.repeat_interleave(count), True, False)
        hidden, _ = pad_packed_sequence(self.along(packed)[0], True, total_length=n)
        return self.read(hidden).reshape(*lead, count, n).transpose(-1, -2)
