"""Interpretability: do the weights of a graph network match the ground truth, and are they faithful?"""

import numpy as np
import torch

from regard.data import MissingData, Task
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.graph_adapter import on_graphs
from regard.judging.attribution.edge_importance import chance_of_nodes, degree_of_nodes, degree_of_units, layers_of
from regard.judging.attribution.importance import Importance, chance
from regard.judging.progress import ProgressCallback, no_progress
from regard.judging.tests.fidelity import kept_and_gone
from regard.judging.tests.ground_truth import areas, of_nodes, taus
from regard.models import Classification, Regression, TaskModel, Trainer, Training
from regard.models.builders import graph_classifier
from regard.nn.graph import GATConv

from ..data.molecules import molecules
from ..data.planted import motifs
from ..tasks.graphs.graph_classification import MOLECULES
from .claim import Claim, Curve, Panel, over_seeds

TEST = "claims: interpretability"
SAYS = "The weights show why: what is looked at is the reason for the prediction."
TRAINING = {
    "motifs": Training(epochs=15, batch=32, rate=3e-3, schedule="cosine", patience=15),
    **MOLECULES,
    "crippen": Training(epochs=60, batch=64, rate=3e-3, schedule="cosine", patience=60),
}
SHARES = (0.1, 0.2, 0.3, 0.5)
MOTIFS = {True: 600, False: 2000}  # how many are learned from, small or not
GRAPHS = {True: 100, False: 500}  # how many are judged


def interpret(small: bool = False, seeds: int = 5, on_progress: ProgressCallback = no_progress) -> Claim:
    """Ground-truth AUC on nodes and edges, and fidelity by share: attention, GAtt, gradient, degree and chance."""
    names = ("motifs", "benzene") if small else tuple(TRAINING)
    made: dict[str, list[dict[str, np.ndarray]]] = {}
    left, accuracy = list[str](), dict[str, list[float]]()
    for place, name in enumerate(names):
        try:
            for seed in range(seeds):
                on_progress(f"{name}, seed {seed + 1} of {seeds}", place * seeds + seed, len(names) * seeds)
                model, task, right = trained(name, seed, small)
                accuracy.setdefault(name, []).append(right)
                made.setdefault(name, []).append(measured(model, task, GRAPHS[small]))
        except MissingData as problem:
            left.append(f"{name}: {problem}")
    panels = [panel for level in ("nodes", "edges") if (panel := _areas(made, level)) is not None]
    panels += [_fidelity(name, found, sign) for name, found in made.items() if name != "crippen" for sign in "+-"]
    if "crippen" in made:
        panels.append(_taus(made["crippen"]))
    return Claim(
        "interpret",
        SAYS,
        tuple(_answer(panels)),
        tuple(panels),
        seeds,
        {
            "network": "3 layers of GATConv, 4 heads of 8, additive readout",
            "epochs": {name: one.epochs for name, one in TRAINING.items()},
            "accuracy (crippen: R2) by seed": accuracy,
        },
        tuple(left),
    )


def trained(name: str, seed: int = 0, small: bool = False) -> tuple[TaskModel, Task, float]:
    """A graph classifier with GAT layers, its task, and its test accuracy (crippen: R2)."""
    if name == "motifs":
        task = motifs(nodes=10, train=MOTIFS[small], val=200, test=200, seed=seed)
    else:
        task = molecules(name, bonds=True)
    if small and name != "motifs":
        task.train = task.train[:3000]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = graph_classifier(task.train[0].inputs.shape[1], task.classes, dim=32, layer=GATConv)
    Trainer(TRAINING[name]).fit(model, Classification() if task.classes else Regression(), task.train, task.val, seed)
    model.eval()
    adapter = on_graphs(model, task.test)
    wanted = torch.stack([one.target for one in task.test]).double().numpy()
    if task.classes:
        said = np.asarray(adapter.each(lambda inputs: adapter.predict(inputs).argmax(-1).tolist()))
        return model, task, float((said == wanted).mean())
    with torch.no_grad():
        number = np.asarray(adapter.each(lambda inputs: adapter.logits(inputs)[:, 1].tolist()))
    return model, task, float(1 - ((number - wanted) ** 2).mean() / wanted.var())


def measured(model: TaskModel, task: Task, most: int) -> dict[str, np.ndarray]:
    """By "what/measure": AUC on nodes and edges (graphs with ground truth), Fid+ and Fid- by share (all graphs)."""
    found: dict[str, np.ndarray] = {}
    if not task.classes:
        adapter = on_graphs(model, task.test[:most])
        every = of_nodes(towards=1) | {"random": chance_of_nodes(), "degree": degree_of_nodes}
        for name, measure in every.items():
            found[f"share/{name}"] = taus(adapter, measure)
            found[f"size of the share/{name}"] = taus(adapter, measure, magnitude=True)
        return found
    reason = [one for one in task.test if one.gold is not None and bool((one.gold > 0).any())][:most]
    adapter = on_graphs(model, reason)
    nodes = of_nodes() | {"random": chance_of_nodes(), "degree": degree_of_nodes}
    edges = _edge_measures(adapter) | {"degree": degree_of_units}
    for name, measure in nodes.items():
        found[f"nodes/{name}"] = areas(adapter, measure, "nodes")[:, 0]
    for name, measure in edges.items():
        found[f"edges/{name}"] = areas(adapter, measure, "edges")[:, 0]
    adapter = on_graphs(model, task.test[: most // 2])
    for name, measure in _edge_measures(adapter).items():
        for share in SHARES:
            found[f"{share}/{name}"] = kept_and_gone(adapter, measure, share)[:, :2]
    return found


def _edge_measures(adapter: Adapter) -> dict[str, Importance]:
    found = layers_of(adapter)
    kept = ("attention by its rivals", "GAtt", "gradient")
    made = {"attention": found["attention, mean of layers"]} | {name: found[name] for name in kept}
    return made | {"random": chance()}


def _areas(made: dict[str, list[dict[str, np.ndarray]]], level: str) -> Panel | None:
    some = {name: runs for name, runs in made.items() if f"{level}/random" in runs[0]}
    if not some:
        return None
    names = [key.partition("/")[2] for key in next(iter(some.values()))[0] if key.startswith(f"{level}/")]
    curves = []
    for name in names:
        each = []
        for data, runs in some.items():
            tables = [run[f"{level}/{name}"] for run in runs]
            beside = {
                other: _shared(data, [run[f"{level}/{other}"] for run in runs])
                for other in ("random", "degree")
                if other != name
            }
            each.append(
                over_seeds(
                    f"AUC of {name} on {level} of {data}, best explanation",
                    _shared(data, tables),
                    test=TEST,
                    unit="AUC",
                    baselines=beside,
                )
            )
        curves.append(Curve(name, tuple(each)))
    return Panel(
        f"Does it rank the {level} of the known explanation first?",
        "data",
        "AUC",
        tuple(some),
        tuple(curves),
        note="The best of the admissible explanations counts, for chance too; graphs that have an explanation.",
        limit=("chance with one explanation", 0.5),
    )


def _shared(data: str, tables: list[np.ndarray]) -> np.ndarray:
    """Values by instance, or their means if every seed has different graphs."""
    return np.asarray([np.nanmean(one) for one in tables] if data == "motifs" else tables)


def _fidelity(data: str, runs: list[dict[str, np.ndarray]], sign: str) -> Panel:
    column = "+-".index(sign)
    names = [key.partition("/")[2] for key in runs[0] if key.startswith(f"{SHARES[0]}/")]
    curves = []
    for name in names:
        each = []
        for share in SHARES:
            tables = [run[f"{share}/{name}"][:, column] for run in runs]
            each.append(
                over_seeds(
                    f"Fidelity{sign} (probability) of {name} on {data}, top {share:.0%}",
                    _shared(data, tables),
                    test=TEST,
                    better="higher" if sign == "+" else "lower",
                    unit="probability",
                )
            )
        curves.append(Curve(name, tuple(each)))
    what = "without the top edges (higher is better)" if sign == "+" else "with them alone (lower is better)"
    return Panel(
        f"Fidelity{sign} on {data}: {what}",
        "share of the edges (1 - sparsity)",
        "probability lost",
        SHARES,
        tuple(curves),
        limit=("nothing lost", 0.0),
    )


def _taus(runs: list[dict[str, np.ndarray]]) -> Panel:
    names = [key.partition("/")[2] for key in runs[0] if key.startswith("share/")]
    curves = tuple(
        Curve(
            name,
            tuple(
                over_seeds(
                    f"tau of {name} and the {what} of each atom in crippen",
                    [run[f"{what}/{name}"] for run in runs],
                    test=TEST,
                    unit="Kendall tau-b",
                )
                for what in ("share", "size of the share")
            ),
        )
        for name in names
    )
    return Panel(
        "Does it order the atoms as their share in the answer does? (crippen)",
        "compared with",
        "Kendall tau-b",
        ("share", "size of the share"),
        curves,
        limit=("chance", 0.0),
        note="Weights have no sign; the gradient has.",
    )


def _answer(panels: list[Panel]) -> list[str]:
    said = []
    for panel, level in zip(panels[:2], ("nodes", "edges"), strict=False):
        if panel.y != "AUC":
            continue
        for data in panel.x:
            found = {curve.name: panel.at(curve.name, data).value or 0.0 for curve in panel.curves}
            best = max(found, key=lambda name: found[name])
            against = panel.at("attention", data).against("random")
            stands = f"{against} than" if against in ("better", "worse") else "not significantly different from"
            said.append(
                f"{data}, {level}: attention {found['attention']:.2f}, {stands} random "
                f"({found['random']:.2f}); the highest is {best} ({found[best]:.2f})."
            )
    said.append(
        "None of this says that a prediction is explained: it says where weights lie, and what goes with the "
        "edges that they mark."
    )
    return said
