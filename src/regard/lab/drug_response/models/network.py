"""One network for all variants: drug encoder, cell line encoder, and their interaction."""

import numpy as np
import torch
from torch import Tensor, nn

from ..protocol.fold import KINDS, Fold
from .attention_variants import place_of
from .cell_line_encoders import Genes, Proteins
from .cross_attention import DrugToGenes, DrugToKinds, LineToAtoms
from .drug_encoders import Atoms, Fingerprint


class ResponseNetwork(nn.Module):
    """Predicts residual responses of cell lines to drugs.

        y_dl = scale (w . relu(A h_d + B h_l + C m_dl) + U h_d . V h_l)

    drugs (K,), lines (B,)  ->  (K, B). Drugs are encoded once a call and lines once, and pairs are read off the two;
    h_d, h_l and the meeting m_dl (0 without one) are those of the `Place`.
    """

    def __init__(
        self, fold: Fold, variant: str, width: int = 32, layers: int = 2, heads: int = 2, dropout: float = 0.2
    ):
        super().__init__()
        place, ablation = place_of(variant)
        align = "uniform" if ablation == "uniform" else "softmax"
        panel, genes = fold.panel, len(fold.panel.symbols)
        features = {kind: fold.omics[kind].shape[1] for kind in KINDS}
        for kind in KINDS:
            self.register_buffer(kind, torch.from_numpy(fold.omics[kind]), persistent=False)
        known_drugs = torch.from_numpy(fold.drugs)
        self.drug: Fingerprint | Atoms
        if place.drug == "fingerprint":
            self.drug = Fingerprint(torch.from_numpy(panel.fingerprints), width, dropout)
        else:
            self.drug = Atoms(panel.molecules, known_drugs, place.drug, place.readout, width, layers, dropout, align)
        if place.line == "proteins":
            proteins = torch.from_numpy(panel.proteins)
            self.line: nn.Module = Proteins(proteins, genes, layers, width, dropout, align)
        else:
            self.line = Genes(features, width, dropout)
        self.meeting: nn.Module | None = None
        if place.meeting == "genes":
            self.meeting = DrugToGenes(genes, width, heads, align)
        elif place.meeting == "kinds":
            self.meeting = DrugToKinds(features, width, heads, dropout, align)
        elif place.meeting == "atoms":
            self.meeting = LineToAtoms(width, heads, align)
        self.by_drug, self.by_line = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.product = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, 1)
        self.drugs = len(panel.names)
        known = fold.residual[fold.train]
        self.register_buffer("scale", torch.tensor(float(np.std(known)) or 1.0), persistent=False)
        self.scale: Tensor
        self.expression: Tensor

    def forward(self, drugs: Tensor, lines: Tensor) -> Tensor:
        omics = {kind: getattr(self, kind).index_select(0, lines) for kind in KINDS}
        h_l = self.line(omics)
        if isinstance(self.meeting, LineToAtoms) and isinstance(self.drug, Atoms):
            some = self.drug.graph_of(drugs)
            x = self.drug.of_atoms(some)
            h_d, met = self.drug.read(x, some, drugs), self.meeting(h_l, x, some)
        else:
            h_d = self.drug(drugs)
            met = None if self.meeting is None else self.meeting(h_d, omics)
        hidden = self.by_drug(h_d)[:, None] + self.by_line(h_l)
        if met is not None:
            hidden = hidden + met
        y = self.out(torch.relu(hidden)).squeeze(-1) + self.product(h_d) @ h_l.mT / h_l.shape[-1] ** 0.5
        return y * self.scale
