"""Cross-attention between drug and cell line: three variants by query and key.

All give (D, B, width): one vector for each pair of drug and cell line.
"""

import torch
from torch import Tensor, nn

from regard.core.attend import attend
from regard.core.structures import Padding

from .cell_line_encoders import TOKEN, GeneTokens
from .drug_encoders import MoleculeGraphs


class DrugToGenes(nn.Module):
    """Each drug weighs the genes of each cell line.

        w_dlg = softmax_g(q(h_d) . k(t_lg) / sqrt(c)),   y_dl = W sum_g w_dlg v(t_lg)

    h (D, width), omics (B, G)  ->  (D, B, width). Manica et al. 2019 (PaccMann's contextual attention).
    """

    def __init__(self, genes: int, width: int, heads: int, align: str = "softmax"):
        super().__init__()
        self.heads, self.align = heads, align
        self.tokens = GeneTokens(genes)
        self.q, self.k, self.v = (nn.Linear(size, heads * TOKEN) for size in (width, TOKEN, TOKEN))
        self.out = nn.Linear(heads * TOKEN, width)

    def forward(self, h: Tensor, omics: dict[str, Tensor]) -> Tensor:
        t = self.tokens(omics)
        k, v = (part(t).unflatten(-1, (self.heads, -1)).transpose(-2, -3) for part in (self.k, self.v))  # (B, H, G, c)
        q = self.q(h).unflatten(-1, (self.heads, -1)).transpose(0, 1).expand(len(t), -1, -1, -1)  # (B, H, D, c)
        met = attend(q, k, v, align=self.align).out  # (B, H, D, c)
        out: Tensor = self.out(met.transpose(1, 2).flatten(-2)).transpose(0, 1)
        return out


class LineToAtoms(nn.Module):
    """Each cell line weighs the atoms of each drug.

        w_lda = softmax over the atoms of d (q(h_l) . k(x_a) / sqrt(c)),   y_dl = W sum_a w_lda v(x_a)

    h (B, width), atoms (N, width)  ->  (D, B, width). Drug and omics in one transformer, as Li et al. 2022 (TransEDRP).
    """

    def __init__(self, width: int, heads: int, align: str = "softmax"):
        super().__init__()
        self.heads, self.align = heads, align
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, h: Tensor, x: Tensor, some: MoleculeGraphs) -> Tensor:
        atoms = x.index_select(0, some.place.flatten()).unflatten(0, tuple(some.place.shape))  # (D, A, width)
        k, v = (part(atoms).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.k, self.v))
        q = self.q(h).unflatten(-1, (self.heads, -1)).transpose(0, 1).expand(len(atoms), -1, -1, -1)  # (D, H, B, c)
        met = attend(q, k, v, align=self.align, over=Padding(some.sizes)).out
        out: Tensor = self.out(met.transpose(1, 2).flatten(-2))
        return out


class DrugToKinds(nn.Module):
    """Each drug weighs the kinds of omics of each cell line: expression, copy number, mutation, methylation.

        z_lo = relu(W_o x_lo),   w_dlo = softmax_o(q(h_d) . k(z_lo) / sqrt(c)),   y_dl = W sum_o w_dlo v(z_lo)

    h (D, width), omics by kind (B, features)  ->  (D, B, width)
    """

    def __init__(self, features: dict[str, int], width: int, heads: int, dropout: float, align: str = "softmax"):
        super().__init__()
        self.heads, self.align = heads, align
        self.encoders = nn.ModuleDict(
            {
                kind: nn.Sequential(nn.Dropout(dropout), nn.Linear(size, width), nn.ReLU(), nn.Dropout(dropout))
                for kind, size in features.items()
            }
        )
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, h: Tensor, omics: dict[str, Tensor]) -> Tensor:
        z = torch.stack([encode(omics[kind]) for kind, encode in self.encoders.items()], -2)  # (B, kinds, width)
        k, v = (part(z).unflatten(-1, (self.heads, -1)).transpose(-2, -3) for part in (self.k, self.v))
        q = self.q(h).unflatten(-1, (self.heads, -1)).transpose(0, 1).expand(len(z), -1, -1, -1)
        met = attend(q, k, v, align=self.align).out
        out: Tensor = self.out(met.transpose(1, 2).flatten(-2)).transpose(0, 1)
        return out
