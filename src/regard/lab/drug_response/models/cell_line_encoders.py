"""A cell line as a vector: from its omics, or from genes that attend to each other along the protein network."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.nn.graph import GATConv

TOKEN = 8  # width of a gene
READ = 4  # numbers that are read off each gene


class GeneTokens(nn.Module):
    """Each gene of each line as a vector: who it is, and what its omics say.

        t_lg = e_g + x_lg f_g + c_lg h + m_lg u

    x, c, m (B, G): expression, copy number, mutation  ->  (B, G, 8)
    """

    def __init__(self, genes: int):
        super().__init__()
        self.name = nn.Parameter(torch.randn(genes, TOKEN) / 4)
        self.by_expression = nn.Parameter(torch.randn(genes, TOKEN) / 4)
        self.by_copy = nn.Parameter(torch.randn(TOKEN) / 8)
        self.by_mutation = nn.Parameter(torch.randn(TOKEN) / 8)

    def forward(self, omics: dict[str, Tensor]) -> Tensor:
        return (
            self.name
            + omics["expression"][..., None] * self.by_expression
            + omics["copy_number"][..., None] * self.by_copy
            + omics["mutation"][..., None] * self.by_mutation
        )


class Genes(nn.Module):
    """h_l = relu(W [x_l; c_l; m_l; p_l]) of all kinds of omics  ->  (B, width)"""

    def __init__(self, features: dict[str, int], width: int, dropout: float):
        super().__init__()
        self.kinds = tuple(features)
        self.inner = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(sum(features.values()), width), nn.ReLU(), nn.Dropout(dropout)
        )

    def forward(self, omics: dict[str, Tensor]) -> Tensor:
        out: Tensor = self.inner(torch.cat([omics[kind] for kind in self.kinds], -1))
        return out


class Proteins(nn.Module):
    """Genes attend to the genes whose proteins theirs interact with, then each is read by weights of its own.

        t <- t + GAT(relu(norm(t))),   h_l = relu(W [r(t_l1); ...; r(t_lG)])

    omics (B, G)  ->  (B, width). Zhu et al. 2022 (TGSA), with a readout by gene in place of its clusters.
    """

    def __init__(self, proteins: Tensor, genes: int, layers: int, width: int, dropout: float, align: str = "softmax"):
        super().__init__()
        self.register_buffer("proteins", proteins, persistent=False)
        self.proteins: Tensor
        self.tokens = GeneTokens(genes)
        self.layers = nn.ModuleList(GATConv(TOKEN, TOKEN // 2, heads=2, align=align) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(TOKEN) for _ in range(layers))
        self.read = nn.Linear(TOKEN, READ)
        self.last = nn.Sequential(nn.Dropout(dropout), nn.Linear(genes * READ, width), nn.ReLU(), nn.Dropout(dropout))

    def forward(self, omics: dict[str, Tensor]) -> Tensor:
        t = self.tokens(omics)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            t = t + layer(F.relu(norm(t)), self.proteins)
        out: Tensor = self.last(self.read(t).flatten(-2))
        return out
