"""Training a network on the nodes of one graph, by the recipe of the GAT paper."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data import NodeTask, TypedTask

from ..gat import GAT, GATv2
from ..gcn import GCN
from ..graph_networks.layers import LAYERS
from ..graph_networks.network import GraphNetwork
from ..mlp import MLP
from .train_loop import cloned_state


@dataclass(frozen=True)
class Recipe:
    """Two layers, Adam, weight decay (not on biases), early stopping `patience` epochs after the last improvement.

    hidden, heads   width of a hidden head, number of heads; out_heads are averaged
    dropout         on the inputs of both layers, on the attention weights, and on the projected features: the last is
                    not in the paper but in its authors' code, and is worth a point on Citeseer
    epochs          the maximum
    layers, norm, residual   for networks other than the paper's: depth; "layer", "batch" or "none"; residuals;
                    None: the paper's for gat, gatv2, mean, gcn and mlp, else "layer" and True

    Velickovic et al. 2018, section 3.3.
    """

    hidden: int = 8
    heads: int = 8
    out_heads: int = 1
    dropout: float = 0.6
    rate: float = 0.005
    decay: float = 5e-4
    patience: int = 100
    epochs: int = 10_000
    layers: int = 2
    norm: str | None = None
    residual: bool | None = None

    @property
    def plain(self) -> bool:
        """Whether the network is the paper's."""
        return self.layers == 2 and self.norm is None and self.residual is None


PUBMED = Recipe(out_heads=8, rate=0.01, decay=0.001)


def recipe_for(name: str) -> Recipe:
    """The paper's settings for a data set: Cora and Citeseer share them, Pubmed has its own."""
    return PUBMED if name == "pubmed" else Recipe()


@dataclass(frozen=True)
class Fitted:
    """The outcome of one run: test and validation accuracy at the best epoch (`kept`)."""

    test: float
    val: float
    loss: float
    kept: int
    epochs: int
    seconds: float


def _gat(task: NodeTask, r: Recipe, network: type[GAT] = GAT, **options: Any) -> GAT:
    if network is GAT:  # the code of GATv2 has no such dropout
        options["value_dropout"] = r.dropout
    return network(task.x.shape[1], r.hidden, task.classes, r.dropout, nheads=r.heads, out_heads=r.out_heads, **options)


def _network(kind: str, task: NodeTask, r: Recipe) -> nn.Module:
    """Any layer by name, with the settings of the recipe."""
    return GraphNetwork(
        task.x.shape[1],
        r.hidden * r.heads,
        task.classes,
        kind,
        r.layers,
        r.heads,
        r.dropout,
        r.norm or "layer",
        r.residual is not False,
    )


_PAPERS: dict[str, Callable[[NodeTask, Recipe], nn.Module]] = {
    "gat": _gat,
    "gatv2": lambda task, r: _gat(task, r, GATv2),
    "mean": lambda task, r: _gat(task, r, align="uniform"),
    "gcn": lambda task, r: GCN(task.x.shape[1], r.hidden * r.heads, task.classes, r.dropout),
    "mlp": lambda task, r: MLP(task.x.shape[1], r.hidden * r.heads, task.classes, r.dropout),
}
KINDS = (*_PAPERS, *(kind for kind in LAYERS if kind not in _PAPERS))


def build(kind: str, task: NodeTask, recipe: Recipe) -> nn.Module:
    """A network of a kind for a task: the papers' two layers by a plain recipe, else a `GraphNetwork`."""
    if kind in _PAPERS and recipe.plain:
        return _PAPERS[kind](task, recipe)
    return _network(kind, task, recipe)


def train(kind: str, task: NodeTask, seed: int = 0, recipe: Recipe | None = None) -> tuple[nn.Module, Fitted]:
    """A network of a kind, trained from a seed.

    kind   "gat", "gatv2"; "mean": uniform weights over the same edges; "gcn": weights by degree; "mlp": no edges; and
           those of `GraphNetwork`: "sage", "transformer", "gps", "exphormer", "sgformer", "polynormer", "nodeformer",
           "esa"

    The same seed, threads and versions give the same bits. The global random state is restored.
    """
    if kind not in KINDS:
        raise ValueError(f"train({kind!r}): expected one of {', '.join(KINDS)}.")
    recipe = recipe_for(task.name) if recipe is None else recipe
    with torch.random.fork_rng(devices=[task.y.device] if task.y.is_cuda else []):
        torch.manual_seed(seed)
        model = build(kind, task, recipe).to(task.y.device)
        return model, fit(model, task, recipe)


def fit(model: nn.Module, task: "NodeTask | TypedTask", recipe: Recipe) -> Fitted:
    """Train model(x, edge_index) -> log-probabilities in place, full batch.

    After each step the model is validated without dropout. An epoch in which neither validation loss nor accuracy is at
    least as good as the best before counts against patience; the best epoch is the last in which both were. The model
    ends with its weights; test nodes are not used in any decision.
    """
    biases = [p for name, p in model.named_parameters() if name.rpartition(".")[2] == "bias"]
    weights = [p for name, p in model.named_parameters() if name.rpartition(".")[2] != "bias"]
    groups = [{"params": weights, "weight_decay": recipe.decay}, {"params": biases, "weight_decay": 0.0}]
    optimiser = torch.optim.Adam(groups, lr=recipe.rate)
    learn, choose, held_out = (_Part(task, mask) for mask in (task.train, task.val, task.test))
    best = Fitted(0.0, 0.0, float("inf"), 0, 0, 0.0)
    accuracy, loss, waited, epoch, began = 0.0, float("inf"), 0, 0, time.perf_counter()
    state = cloned_state(model)
    while epoch < recipe.epochs and waited < recipe.patience:
        epoch += 1
        model.train()
        optimiser.zero_grad()
        learn.loss(model(task.x, task.edge_index)).backward()
        optimiser.step()
        model.eval()
        with torch.no_grad():
            out = model(task.x, task.edge_index)
            now, right = choose.loss(out).item(), choose.accuracy(out)
            if right >= accuracy and now <= loss:
                best = Fitted(held_out.accuracy(out), right, now, epoch, 0, 0.0)
                state = cloned_state(model)
        waited = 0 if right >= accuracy or now <= loss else waited + 1
        accuracy, loss = max(accuracy, right), min(loss, now)
    model.load_state_dict(state)
    return Fitted(best.test, best.val, best.loss, best.kept, epoch, time.perf_counter() - began)


class _Part:
    """One split of the nodes, with its labels."""

    def __init__(self, task: "NodeTask | TypedTask", mask: Tensor):
        self.index = mask.nonzero()[:, 0]
        self.y = task.y[self.index]
        if self.index.numel() == 0:
            raise ValueError(f"{task.name} has an empty split: train, val and test need at least one node each.")

    def loss(self, out: Tensor) -> Tensor:
        return F.nll_loss(out[self.index], self.y)

    def accuracy(self, out: Tensor) -> float:
        return (out[self.index].argmax(-1) == self.y).float().mean().item()
