"""Triangle attention: pairs of one residue attend one another, biased by the pair that closes the triangle."""

from torch import Tensor, nn

from regard.core.attend import Attended
from regard.core.structures import Structure

from .gated_rows import GatedRows


class TriangleAttention(GatedRows):
    """Pairs that start (or end) at one residue attend one another; the third side of the triangle biases the score.

        starting: out_ij = W_o (sigmoid(W_g z_ij) * sum_k w_ijk v_ik),   w_ij = softmax_k(q_ij . k_ik / sqrt d + b_jk)
        ending:   the same on z_ji, and back

    z (..., n, n, dim), normed  ->  out (..., n, n, dim) and the map (..., n, heads, n, n): the rows of one residue each

    dim, heads, d   width of a pair, heads, and their width (dim / heads unless given)
    node            "starting" or "ending"

    Also known as: triangular self-attention, AlphaFold triangle attention.
    Jumper et al. 2021 (AlphaFold 2, algorithms 13 and 14); also in AlphaFold 3 and Boltz. One bias of n x n numbers
    is shared by all n rows. Transposing z turns "starting" into "ending".
    """

    def __init__(self, dim: int, heads: int, *, d: int | None = None, node: str = "starting"):
        super().__init__(dim, heads, d=d)
        if node not in ("starting", "ending"):
            raise ValueError(f'TriangleAttention(node={node!r}): expected "starting" or "ending".')
        self.node = node
        self.bias_proj = nn.Linear(dim, heads, bias=False)

    def forward(self, z: Tensor, over: Structure | None = None) -> Attended:
        """over: which k may be attended, such as Padding(lengths[:, None]) for one length an item."""
        self._check(z)
        if z.shape[-3] != z.shape[-2]:
            raise ValueError(f"TriangleAttention: z is {tuple(z.shape)}, expected pairs (..., n, n, {self.dim}).")
        z = z if self.node == "starting" else z.transpose(-3, -2)
        z = self.norm(z)
        attended = self._attended(z, self.bias_proj(z).movedim(-1, -3), over)
        return attended if self.node == "starting" else Attended(attended.out.transpose(-3, -2), attended.map)
