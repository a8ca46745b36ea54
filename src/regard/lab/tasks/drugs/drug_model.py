"""Drug response: a drug as a graph and a cell line as its methylation, with attention in any of three places."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.attend import attend
from regard.core.maps.attention_map import AttentionMap
from regard.core.structures import Padding
from regard.data.batch import Batch
from regard.data.smiles import ATOM, BOND
from regard.models.features.nodes import Nodes
from regard.models.gcn import GCNConv
from regard.models.model_output import Answer
from regard.nn.feature import InteractiveCoAttention
from regard.nn.graph import AttentionalAggregation, GATConv, GATv2Conv
from regard.nn.graph.pooling import membership

from ...data.drugs import DrugTask

# Message passing between atoms: name -> node feature model.
MESSAGE_PASSING: dict[str, Callable[[int, float], Nodes]] = {
    "gcn": lambda dim, dropout: Nodes(ATOM, dim, dropout=dropout, layer=GCNConv),
    "gat": lambda dim, dropout: Nodes(ATOM, dim, dropout=dropout, layer=GATConv),
    "gatv2": lambda dim, dropout: Nodes(ATOM, dim, dropout=dropout, layer=GATv2Conv),
    "edge": lambda dim, dropout: Nodes(ATOM, dim, dropout=dropout, layer=GATv2Conv, edge_dim=BOND),
    "uniform": lambda dim, dropout: Nodes(ATOM, dim, dropout=dropout, layer=GATConv, align="uniform"),
    "none": lambda dim, dropout: Nodes(ATOM, dim, layers=0),
}
READOUTS = ("mean", "global", "co")


class DrugResponse(nn.Module):
    """Message passing over atoms, a readout into one vector, combined with the cell line.

        h = layers(atoms, bonds),   d = read(h),   c = MLP(methylation),   y = MLP([d; c])

    batch.inputs (B, 2): drug and cell line, by their places in the task  ->  Answer.out (B,): ln IC50

    attention   gat, gatv2, edge (GATv2 with bond features): message passing; mean readout
                global: GCN with a gated readout, the same for every cell line
                co: GCN with interactive co-attention of atoms and the chromosomes of the cell line
                gcn, uniform (mean of neighbours), none (no bonds): without attention

    All drugs of the task are encoded once a step. Normalisation statistics are those of the
    training split.
    """

    def __init__(self, task: DrugTask, attention: str = "gat", dim: int = 64, width: int = 128, dropout: float = 0.1):
        super().__init__()
        passing, readout = ("gcn", attention) if attention in READOUTS else (attention, "mean")
        if passing not in MESSAGE_PASSING or attention == "mean":
            known = ", ".join([*MESSAGE_PASSING, *READOUTS[1:]])
            raise ValueError(f"DrugResponse(attention={attention!r}): expected one of {known}.")
        self.reading = readout
        self.chromosomes = task.chromosomes
        self._keep_drugs(task)
        self._keep_cells(task)
        self.atoms = MESSAGE_PASSING[passing](dim, dropout)
        self.line = nn.Sequential(
            nn.Linear(task.methylation.shape[1], width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, dim)
        )
        self.gate = AttentionalAggregation(nn.Linear(dim, 1)) if readout == "global" else None
        co = readout == "co"
        self.parts = nn.ModuleList(nn.Linear(size, dim) for size in self.chromosomes) if co else None
        self.co = InteractiveCoAttention(dim) if co else None
        self.norm = nn.LayerNorm((3 if co else 2) * dim)
        self.out = nn.Sequential(
            nn.Linear((3 if co else 2) * dim, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, batch: Batch) -> Answer:
        drug, cell = batch.inputs.unbind(1)
        seen = self.atoms(self.graphs)
        line = self.cells.index_select(0, cell)  # (B, sites)
        read, maps = self._read(seen.values[0], drug, line)
        known = torch.cat([read, self.line(line)], -1)
        out = self.out(self.norm(known)).squeeze(-1)
        return Answer(out * self.target[1] + self.target[0], maps, seen.maps)

    @property
    def graphs(self) -> Batch:
        """All drugs of the task, concatenated."""
        return Batch(
            self.x,
            self.sizes,
            self.sizes,
            self.sizes,
            edge_index=self.edge_index,
            graph=self.graph,
            edge_attr=self.bonds,
        )

    def _read(self, x: Tensor, drug: Tensor, line: Tensor) -> tuple[Tensor, tuple[AttentionMap, ...]]:
        """The drug of each response, (B, d) or with co-attention (B, 2 d), and the maps of the readout."""
        if self.co is not None and self.parts is not None:
            atoms = x.index_select(0, self.place.index_select(0, drug).flatten()).unflatten(0, (len(drug), -1))
            sites = line.split(list(self.chromosomes), -1)
            parts = torch.stack([part(some) for part, some in zip(self.parts, sites, strict=True)], -2)
            met = self.co(atoms, parts, over_first=Padding(self.sizes.index_select(0, drug)))
            return met.out, tuple(met.maps.values())
        if self.gate is not None:
            read, amap = self.gate(x, self.graph, dim_size=self.sizes.shape[0], return_map=True)
            return read.index_select(0, drug), (amap,)
        drugs = self.sizes.shape[0]
        over, q, k = membership(self.graph, drugs), x.new_zeros(1, drugs, 1), x.new_zeros(1, x.shape[0], 1)
        ran = attend(q, k, x[None], "dot", "uniform", over)
        return ran.out[0].index_select(0, drug), (ran.map,)

    def _keep_drugs(self, task: DrugTask) -> None:
        sizes = torch.tensor([len(one.symbols) for one in task.molecules])
        start = sizes.cumsum(0) - sizes
        kept: dict[str, Any] = {
            "x": torch.cat([one.atoms for one in task.molecules]),
            "edge_index": torch.cat([one.edges + at for one, at in zip(task.molecules, start, strict=True)], 1),
            "bonds": torch.cat([one.bonds for one in task.molecules]),
            "graph": torch.repeat_interleave(torch.arange(len(sizes)), sizes),
            "sizes": sizes,
            "place": start[:, None] + torch.minimum(torch.arange(int(sizes.max())), sizes[:, None] - 1),
        }
        for name, x in kept.items():
            self.register_buffer(name, x, persistent=False)
        self.x: Tensor
        self.edge_index: Tensor
        self.bonds: Tensor
        self.graph: Tensor
        self.sizes: Tensor
        self.place: Tensor

    def _keep_cells(self, task: DrugTask) -> None:
        known = torch.stack([one.inputs[1] for one in task.train]).unique()
        deviation, mean = torch.std_mean(task.methylation[known], 0)
        targets = torch.stack([one.target for one in task.train])
        self.register_buffer("cells", (task.methylation - mean) / deviation.clamp_min(1e-2), persistent=False)
        self.register_buffer("target", torch.stack([targets.mean(), targets.std().clamp_min(1e-6)]), persistent=False)
        self.cells: Tensor
        self.target: Tensor
