"""Attention-via-attention: the context of a coarse level is part of the query of the fine level."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike
from ..call_checks import reads
from ..composed import Composed


class AttentionViaAttention(nn.Module):
    """Attention over words first; its context joins the query over characters.

        c_w = Att_w(q, F_w),   c_c = Att_c([q; c_w], F_c),   out = [c_w; c_c]

    query (..., n, dim), words (..., n_w, word_dim), chars (..., n_c, char_dim)  ->  out (..., n, word_dim + char_dim)
    maps: words, chars, a row for each query

    Zhao and Zhang 2018. The levels are two tokenisations of one text, not nested. If the second score ignores c_w,
    attention over characters is plain and sends no gradient to the words.
    """

    @checked
    def __init__(
        self,
        dim: int,
        word_dim: int,
        char_dim: int,
        *,
        score: ScoreLike = "additive",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.words = Attend(dim, word_dim, score, align, dropout)
        self.chars = Attend(dim + word_dim, char_dim, score, align, dropout)

    @reads(query="dim", words="word_dim", chars="char_dim")
    def forward(
        self,
        query: Tensor,
        words: Tensor,
        chars: Tensor,
        over_words: Structure | None = None,
        over_chars: Structure | None = None,
    ) -> Composed:
        coarse = self.words(query, words, over=over_words)
        fine = self.chars(torch.cat([query, coarse.out], -1), chars, over=over_chars)
        return Composed(torch.cat([coarse.out, fine.out], -1), {"words": coarse, "chars": fine})
