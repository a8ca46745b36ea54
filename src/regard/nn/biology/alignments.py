"""Attention over a multiple sequence alignment: along each sequence, biased by pairs, and along each column."""

from torch import Tensor, nn

from regard.core.arguments import shown, whole
from regard.core.attend import Attended
from regard.core.structures import Structure

from .gated_rows import GatedRows


class MSARowAttention(GatedRows):
    """Residues of one sequence attend each other; the pair representation gives one bias for all sequences.

        out_si = W_o (sigmoid(W_g m_si) * sum_j w_sij v_sj),   w_si = softmax_j(q_si . k_sj / sqrt d + b_ij)

    m (..., sequences, n, dim), pairs (..., n, n, pair_dim)  ->  out like m and the map (..., sequences, heads, n, n)

    pair_dim   width of the pair representation; None for no bias

    Also known as: MSA row-wise gated self-attention, axial attention with pair bias.
    Jumper et al. 2021 (AlphaFold 2, algorithm 7); Rao et al. 2021 (MSA Transformer) without bias and gate. The map of a
    sequence does not depend on the others.
    """

    def __init__(self, dim: int, heads: int, *, pair_dim: int | None = None, d: int | None = None):
        super().__init__(dim, heads, d=d)
        self.pair_dim = None if pair_dim is None else whole(pair_dim, "MSARowAttention", "pair_dim")
        self.pair_norm = None if pair_dim is None else nn.LayerNorm(pair_dim)
        self.bias_proj = None if pair_dim is None else nn.Linear(pair_dim, heads, bias=False)

    def forward(self, x: Tensor, pairs: Tensor | None = None, over: Structure | None = None) -> Attended:
        """over: which residues may be attended, such as Padding(lengths[:, None]) for one length an item."""
        self._check(x)
        if (pairs is None) is not (self.bias_proj is None):
            raise ValueError(
                f"MSARowAttention(pair_dim={self.pair_dim}) got pairs={shown(pairs)}: "
                "expected a pair representation exactly where pair_dim was given."
            )
        bias = None
        if pairs is not None and self.bias_proj is not None and self.pair_norm is not None:
            if tuple(pairs.shape) != (*x.shape[:-3], x.shape[-2], x.shape[-2], self.pair_dim):
                raise ValueError(
                    f"MSARowAttention: pairs are {tuple(pairs.shape)} beside x {tuple(x.shape)}, expected "
                    f"{(*x.shape[:-3], x.shape[-2], x.shape[-2], self.pair_dim)}."
                )
            bias = self.bias_proj(self.pair_norm(pairs)).movedim(-1, -3)
        return self._attended(self.norm(x), bias, over)


class MSAColumnAttention(GatedRows):
    """Sequences attend each other, separately at each residue.

        out_si = W_o (sigmoid(W_g m_si) * sum_t w_sti v_ti),   w_si = softmax_t(q_si . k_ti / sqrt d)

    m (..., sequences, n, dim)  ->  out like m and the map (..., n, heads, sequences, sequences)

    Also known as: MSA column-wise gated self-attention.
    Jumper et al. 2021 (AlphaFold 2, algorithm 8); Rao et al. 2021. Permuting sequences permutes the rows of out.
    """

    def forward(self, x: Tensor, over: Structure | None = None) -> Attended:
        """over: which sequences may be attended, such as Padding(counts[:, None]) for one number an item."""
        self._check(x)
        attended = self._attended(self.norm(x).transpose(-3, -2), None, over)
        return Attended(attended.out.transpose(-3, -2), attended.map)
