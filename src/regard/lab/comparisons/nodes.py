"""The study task `nodes`: node classification with any layer in the same network, equally tuned.

The network is `models.graph_networks.network.GraphNetwork`. Residual connections, normalisation, dropout and depth are
hyperparameters of all networks, since many comparisons left them out of classic ones (Luo et al. 2024, "Classic GNNs
are strong baselines").
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.nodes import NodeTask
from regard.data.readers.user_file import is_path
from regard.models.graph_networks.layers import LAYERS, OwnLayer
from regard.models.graph_networks.network import GraphNetwork
from regard.models.training.experiment import Measure
from regard.models.training.parameter_matching import matched_width
from regard.models.training.train_loop import cloned_state
from regard.studies.tasks import StudyTask
from regard.studies.trial import Setting, find

from ..data.heterophilous import NAMES as HETEROPHILOUS
from ..data.planetoid import NAMES as CITATIONS
from ..data.planetoid import one_graph
from ..tasks.graphs.node_study import graph_of

BY_AREA = ("minesweeper", "tolokers")  # imbalanced binary tasks: ROC AUC, as in Platonov et al. 2023
SYNONYMS = {"none": "mlp", "uniform": "mean"}
DEFAULTS: dict[str, Any] = {
    "hidden": 64,
    "layers": 2,
    "heads": 4,
    "dropout": 0.5,
    "rate": 5e-3,
    "decay": 5e-4,
    "residual": True,
    "norm": "layer",
}
EPOCHS = 300
VALIDATIONS = 50  # per training run, evenly spaced: each is a forward over the whole graph


class NodeBenchmark(StudyTask):
    """Layers of any kind on the nodes of one graph.

    options    data: a named graph, csbm and what it takes, the path of an .npz file, or "module:function", a function
               of the seed that returns a NodeTask
    variants   the kinds of `GraphNetwork`, none, or "module:Layer", your own class, built as Layer(width, width) and
               called as layer(x, edge_index)

    cora, citeseer and pubmed have their public split; a heterophilous graph has ten (seed i takes split i).
    """

    call = "regard.lab.comparisons.nodes:run_nodes"
    hyperparameters = tuple(DEFAULTS)

    def __init__(self, part: Mapping[str, Any]):
        super().__init__(part)
        self.options = {"data": "cora"} | self.options
        data = self.options["data"]
        names = (*CITATIONS, *HETEROPHILOUS, "csbm")
        own = data not in names and ":" not in data and is_path(data)
        if data not in names and not own and ":" not in data:
            raise ValueError(
                f"the task nodes has no data {data!r}: expected one of {', '.join(names)}, the path of an .npz file, "
                'or your own function, "module:function".'
            )
        if own:
            one_graph(data)  # refuses with a sentence
            self.source = data
        self.drawn = data not in CITATIONS and not own
        if data in HETEROPHILOUS:
            self.splits, self.overlap = 10, 0.2 / 0.48  # test over training nodes
        area, accuracy = {"area": Measure("ROC AUC, %")}, {"accuracy": Measure("accuracy, %")}
        first = area | accuracy if data in BY_AREA else accuracy
        self.measures = first | {"mcc": Measure("Matthews correlation", 1.0, 3)}

    def canonical(self, variant: str) -> str:
        name = SYNONYMS.get(variant, variant)
        if name in LAYERS or ":" in variant:
            return name
        raise ValueError(
            f"the task nodes has no variant {variant!r}; it has {', '.join(LAYERS)}, and your own layer, "
            '"module:Layer".'
        )


def run_nodes(variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    """One network from one seed: its validation metric, and its test metrics unless tuning."""
    torch.set_num_threads(setting.threads)
    task = _graph(_as_key(setting.options), seed).to(setting.device)
    hyper = DEFAULTS | dict(setting.hyper)
    layer = _layer(variant)
    if setting.match:
        if setting.match["by"] != "hidden":
            raise ValueError(f"match = {setting.match['by']!r}: networks are matched by their width, match = 'hidden'.")
        theirs = DEFAULTS | dict(setting.match["hyper"]) if "hyper" in setting.match else hyper
        target = _count(task, _layer(setting.match["baseline"]), theirs)
        hyper["hidden"] = matched_width(
            lambda width: _count(task, layer, hyper | {"hidden": width}), target, hyper["heads"]
        )
    epochs = int(setting.budget.get("epochs") or setting.budget.get("steps") or EPOCHS)
    main = "area" if task.name in BY_AREA else "accuracy"
    with torch.random.fork_rng(devices=[task.y.device] if task.y.is_cuda else []):
        torch.manual_seed(seed)
        model = _network(task, layer, hyper).to(task.y.device)
        best, curve = _fit(model, task, hyper, epochs, main, setting)
    outcome = {
        "validation": best,
        "curve": curve,
        "parameters": sum(p.numel() for p in model.parameters()),
        "numbers": {},
        **({"width": hyper["hidden"]} if setting.match else {}),
    }
    if setting.tunes:
        return outcome
    with torch.no_grad():
        out = model.eval()(task.x, task.edge_index)[task.test].cpu()
    truth = task.y[task.test].cpu()
    numbers = {"accuracy": measured("accuracy", out, truth), "mcc": measured("mcc", out, truth)}
    if task.name in BY_AREA:
        numbers["area"] = measured("area", out, truth)
    return outcome | {"numbers": numbers, "scores": {"accuracy": (out.argmax(-1) == truth).double().tolist()}}


def measured(name: str, out: Tensor, truth: Tensor) -> float:
    """A metric of log-probabilities (N, classes): accuracy, mcc (Matthews), area under the ROC curve."""
    if name == "accuracy":
        return float((out.argmax(-1) == truth).double().mean())
    from sklearn.metrics import matthews_corrcoef, roc_auc_score

    if name == "mcc":
        return float(matthews_corrcoef(truth.numpy(), out.argmax(-1).numpy()))
    return float(roc_auc_score(truth.numpy(), (out[:, 1] - out[:, 0]).double().numpy()))


def _fit(
    model: nn.Module, task: NodeTask, hyper: Mapping[str, Any], epochs: int, main: str, setting: Setting
) -> tuple[float, list[float]]:
    """Full-batch training; the model ends with the weights of the best validation."""
    optimiser = torch.optim.Adam(model.parameters(), lr=hyper["rate"], weight_decay=hyper["decay"])
    every = max(1, epochs // VALIDATIONS)
    truth = task.y[task.val].cpu()
    curve: list[float] = []
    state = cloned_state(model)
    for epoch in range(1, epochs + 1):
        model.train()
        optimiser.zero_grad()
        out = model(task.x, task.edge_index)
        F.nll_loss(out[task.train], task.y[task.train]).backward()
        optimiser.step()
        if epoch % every and epoch != epochs:
            continue
        with torch.no_grad():
            out = model.eval()(task.x, task.edge_index)[task.val].cpu()
        if not bool(out.isfinite().all()):
            raise ValueError(f"training diverged in epoch {epoch}: {dict(hyper)}")
        value = measured(main, out, truth)
        if not curve or value > max(curve):
            state = cloned_state(model)
        curve.append(value)
        setting.report(epoch / epochs, f"epoch {epoch} of {epochs}")
    model.load_state_dict(state)
    return max(curve), [round(value, 4) for value in curve]


def _network(task: NodeTask, layer: "str | OwnLayer", hyper: Mapping[str, Any]) -> GraphNetwork:
    return GraphNetwork(
        task.x.shape[1],
        hyper["hidden"],
        task.classes,
        layer,
        hyper["layers"],
        hyper["heads"],
        hyper["dropout"],
        norm=hyper["norm"],
        residual=hyper["residual"],
    )


def _count(task: NodeTask, layer: "str | OwnLayer", hyper: Mapping[str, Any]) -> int:
    """Number of parameters of a network."""
    with torch.random.fork_rng(devices=[]):
        return sum(p.numel() for p in _network(task, layer, hyper).parameters())


def _layer(variant: str) -> "str | OwnLayer":
    if ":" not in variant:
        return variant
    own: Callable[[int, int], nn.Module] = find(variant)
    return lambda width, heads: own(width, width)


def _as_key(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(options.items()))


@cache
def _graph(options: tuple[tuple[str, Any], ...], seed: int) -> NodeTask:
    """The graph of a seed; dense if small, which is faster for many short runs."""
    named = dict(options)
    data = named.pop("data")
    task: NodeTask = find(data)(seed) if ":" in data else graph_of(data, seed, **named)
    small = task.x.numel() <= 30_000_000
    return replace(task, x=task.x.to_dense()) if task.x.layout != torch.strided and small else task
