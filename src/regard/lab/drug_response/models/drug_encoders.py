"""A drug as a vector: from its fingerprint, or from its atoms by message passing and a readout."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.smiles import ATOM, BOND, Molecule
from regard.models.gcn import GCNConv
from regard.nn.graph import AttentionalAggregation, GATConv, GATv2Conv, TransformerConv

LAYERS: dict[str, tuple[Any, bool]] = {  # whether it reads the bonds
    "gcn": (GCNConv, False),
    "gat": (GATConv, False),
    "gatv2": (GATv2Conv, False),
    "edge": (GATv2Conv, True),
    "transformer": (TransformerConv, True),
}


class Fingerprint(nn.Module):
    """h_d = relu(W f_d),  f (D, bits)  ->  (drugs, width)"""

    def __init__(self, bits: Tensor, width: int, dropout: float):
        super().__init__()
        self.register_buffer("bits", bits, persistent=False)
        self.bits: Tensor
        self.inner = nn.Sequential(nn.Linear(bits.shape[1], width), nn.ReLU(), nn.Dropout(dropout))

    def forward(self, drugs: Tensor) -> Tensor:
        out: Tensor = self.inner(self.bits.index_select(0, drugs))
        return out


@dataclass(frozen=True, eq=False)
class MoleculeGraphs:
    """Some drugs as one graph: x (N, 30), edge_index (2, E), bonds (E, 6), graph (N,) the drug of each atom, and
    place (drugs, A): where the atoms of a drug stand, its last one repeated."""

    x: Tensor
    edge_index: Tensor
    bonds: Tensor
    graph: Tensor
    sizes: Tensor
    place: Tensor

    @classmethod
    def of(cls, molecules: Sequence[Molecule], device: torch.device) -> "MoleculeGraphs":
        sizes = torch.tensor([len(one.symbols) for one in molecules])
        start = sizes.cumsum(0) - sizes
        made = (
            torch.cat([one.atoms for one in molecules]),
            torch.cat([one.edges + at for one, at in zip(molecules, start, strict=True)], 1),
            torch.cat([one.bonds for one in molecules]),
            torch.repeat_interleave(torch.arange(len(sizes)), sizes),
            sizes,
            start[:, None] + torch.minimum(torch.arange(int(sizes.max())), sizes[:, None] - 1),
        )
        return cls(*(x.to(device) for x in made))


class Atoms(nn.Module):
    """Message passing over the bonds of some drugs at once, then a readout.

        x <- x + layer(relu(norm(x))),   r_d = mean of the atoms, or their gated mean (global attention)
        h_d = relu(W (r_d - mean) / deviation),  over the drugs of a step, or of the training part (`known`)

    drugs (K,)  ->  (K, width). Means of atoms are much alike: without the standardisation a network needs many epochs
    to tell drugs apart.
    """

    def __init__(
        self,
        molecules: tuple[Molecule, ...],
        known: Tensor,
        kind: str,
        readout: str,
        width: int,
        layers: int,
        dropout: float,
        align: str = "softmax",
    ):
        super().__init__()
        self.molecules = molecules
        self.graphs: dict[tuple[int, ...], MoleculeGraphs] = {}
        self.register_buffer("known", known, persistent=False)
        self.known: Tensor
        made, self.reads_bonds = LAYERS.get(kind, (None, False))
        options: dict[str, Any] = {"edge_dim": BOND} if self.reads_bonds else {}
        options |= {} if made in (None, GCNConv) else {"align": align}
        count = 0 if made is None else layers
        self.first = nn.Linear(ATOM, width)
        self.layers = nn.ModuleList(made(width, width // 4, heads=4, **options) for _ in range(count))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(count))
        self.gate = AttentionalAggregation(nn.Linear(width, 1)) if readout == "global" else None
        self.last = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout))

    def graph_of(self, drugs: Tensor) -> MoleculeGraphs:
        """The molecules of some drugs as one graph; the same drugs again are the same graph."""
        key = tuple(drugs.tolist())
        if key not in self.graphs:
            self.graphs[key] = MoleculeGraphs.of([self.molecules[drug] for drug in key], drugs.device)
        return self.graphs[key]

    def of_atoms(self, some: MoleculeGraphs) -> Tensor:
        x: Tensor = self.first(some.x)
        bonds = {"edge_attr": some.bonds} if self.reads_bonds else {}
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + layer(F.relu(norm(x)), some.edge_index, **bonds)
        return x

    def read(self, x: Tensor, some: MoleculeGraphs, drugs: Tensor) -> Tensor:
        count = len(drugs)
        if self.gate is not None:
            read = self.gate(x, some.graph, dim_size=count)
        else:
            read = x.new_zeros(count, x.shape[1]).index_add(0, some.graph, x) / some.sizes[:, None]
        among = read if self.training else read[torch.isin(drugs, self.known)]
        deviation, mean = torch.std_mean(among, 0)
        out: Tensor = self.last((read - mean) / (deviation + 1e-3))
        return out

    def forward(self, drugs: Tensor) -> Tensor:
        some = self.graph_of(drugs)
        return self.read(self.of_atoms(some), some, drugs)
