"""Demo: semi-supervised node classification on Zachary's karate club with a GAT.

Zachary 1977 recorded 34 members and who met whom outside the club. Four members are labelled. Node features are one-hot
indices, so labels propagate along edges only; `align="uniform"` is the ablation, an MLP has no edges.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

import networkx
import numpy as np
import torch
from networkx.algorithms.node_classification import harmonic_function
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models import GAT, MLP

from .spread import Spread

LEADERS = (0, 33)  # the instructor and the administrator
KINDS = ("attention", "uniform weights", "no edges")
EPOCHS = 100


@dataclass(frozen=True)
class Club:
    """edge_index (2, 156) both ways, sides (34,) 0 the instructor's and 1 the administrator's, places (34, 2)."""

    graph: networkx.Graph
    edge_index: Tensor
    sides: Tensor
    places: np.ndarray

    @classmethod
    def load(cls) -> "Club":
        graph = networkx.karate_club_graph()
        ties = torch.tensor(list(graph.edges)).T
        sides = torch.tensor([graph.nodes[member]["club"] == "Officer" for member in graph]).long()
        return cls(graph, torch.cat([ties, ties.flip(0)], 1), sides, _places(graph))

    def labelled(self, seed: int) -> Tensor:
        """The labelled members: both leaders, and one more of each side, drawn by the seed."""
        draw, chosen = torch.Generator().manual_seed(seed), list(LEADERS)
        for side in (0, 1):
            others = [m for m in (self.sides == side).nonzero()[:, 0].tolist() if m not in LEADERS]
            chosen.append(others[int(torch.randint(len(others), (), generator=draw))])
        return torch.tensor(chosen)

    def hidden(self, seed: int) -> Tensor:
        """(34,) bool: the test members, all but the labelled ones."""
        return torch.ones(len(self.sides), dtype=torch.bool).index_fill(0, self.labelled(seed), False)


def _places(graph: networkx.Graph) -> np.ndarray:
    """Kamada and Kawai's layout, rotated so that the leaders are left and right."""
    found = networkx.kamada_kawai_layout(graph, weight=None)
    places = np.array([found[member] for member in graph])
    along = places[LEADERS[1]] - places[LEADERS[0]]
    along = along / np.linalg.norm(along)
    turned = (places - places.mean(0)) @ np.array([along, [-along[1], along[0]]]).T
    return turned - (turned.max(0) + turned.min(0)) / 2


@dataclass(frozen=True)
class TrainedGAT:
    """One trained GAT: predictions (34,), the weights (156,) of its last layer, and its predictions when the weights of
    both layers are replaced by uniform ones, without retraining."""

    seed: int
    answers: Tensor
    weights: Tensor
    uniform_answers: Tensor


@dataclass
class KarateResults:
    """Accuracy on the hidden members by kind of network and by baseline, one value a seed; the trained GATs."""

    seeds: int
    runs: dict[str, list[float]] = field(default_factory=dict)
    baselines: dict[str, list[float]] = field(default_factory=dict)
    trained: list[TrainedGAT] = field(default_factory=list)

    def spread(self, kind: str) -> Spread:
        return Spread(tuple(self.runs[kind]))


def study(club: Club, results: KarateResults) -> Iterator[tuple[int, str, float]]:
    """Train every kind with every seed into `results`; yields each run as it ends.

    Within a seed all kinds have the same labelled members, and both GATs the same initialisation.
    """
    cut = _cut(club)
    for seed in range(results.seeds):
        for name, answers in (("harmonic function", _harmonic(club, seed)), ("Zachary's cut", cut)):
            results.baselines.setdefault(name, []).append(accuracy(club, seed, answers))
        for kind in KINDS:
            model = fitted(club, kind, seed)
            answers = _answers(model, club)
            if kind == "attention":
                results.trained.append(_inspect(model, club, seed))
            results.runs.setdefault(kind, []).append(accuracy(club, seed, answers))
            yield seed, kind, results.runs[kind][-1]


def network(kind: str) -> nn.Module:
    """Two layers, 4 heads of 8, then one; without edges two linear layers of the same width."""
    if kind == "no edges":
        return MLP(34, 32, 2, dropout=0.5)
    return GAT(34, 8, 2, dropout=0.5, nheads=4, align="softmax" if kind == "attention" else "uniform")


def fitted(club: Club, kind: str, seed: int, epochs: int = EPOCHS) -> nn.Module:
    """Train on the labelled members for a fixed number of epochs; no other label is used."""
    labelled, x = club.labelled(seed), torch.eye(len(club.sides))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network(kind)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
        for _ in range(epochs):
            optimiser.zero_grad()
            F.nll_loss(model(x, club.edge_index)[labelled], club.sides[labelled]).backward()
            optimiser.step()
    return model.eval()


def accuracy(club: Club, seed: int, answers: Tensor) -> float:
    return float((answers == club.sides)[club.hidden(seed)].float().mean())


def agreement(club: Club, results: KarateResults) -> dict[tuple[int, int], float]:
    """Spearman's correlation between seeds of the edge weights relative to uniform ones: w_ij (d_i + 1)."""
    from scipy.stats import spearmanr

    share = club.edge_index[1].bincount(minlength=len(club.sides))[club.edge_index[1]] + 1
    beside = {one.seed: (one.weights * share).numpy() for one in results.trained}
    return {(a, b): float(spearmanr(beside[a], beside[b]).statistic) for a, b in combinations(beside, 2)}


@torch.no_grad()
def _answers(model: nn.Module, club: Club) -> Tensor:
    answers: Tensor = model(torch.eye(len(club.sides)), club.edge_index).argmax(-1)
    return answers


@torch.no_grad()
def _inspect(model: nn.Module, club: Club, seed: int) -> TrainedGAT:
    out, maps = model(torch.eye(len(club.sides)), club.edge_index, return_maps=True)
    level = network("uniform weights").eval()
    level.load_state_dict(model.state_dict())
    return TrainedGAT(seed, out.argmax(-1), maps[1].edges().reshape(-1), _answers(level, club))


def _harmonic(club: Club, seed: int) -> Tensor:
    """Zhu et al. 2003: each unlabelled member is the mean of its neighbours, labelled ones are fixed."""
    graph = networkx.Graph(club.graph.edges)
    graph.add_nodes_from((member, {"label": int(club.sides[member])}) for member in club.labelled(seed).tolist())
    labels = dict(zip(graph, harmonic_function(graph), strict=True))
    return torch.tensor([labels[member] for member in club.graph])


def _cut(club: Club) -> Tensor:
    """Zachary's own: the minimum cut between the leaders, with the number of meetings as capacity."""
    _, (_, officers) = networkx.minimum_cut(club.graph, *LEADERS, capacity="weight")
    return torch.tensor([member in officers for member in club.graph]).long()
