"""Heterogeneity: does attention help with heterophilous neighbours and with several edge types?"""

from dataclasses import replace

import numpy as np
import torch

from regard.data import MissingData, NodeTask
from regard.judging.progress import ProgressCallback, no_progress
from regard.models.hetero_gnn import TYPED
from regard.models.relational_gnn import KINDS as RELATED
from regard.models.relational_gnn import RelationalGNN
from regard.models.training.node_training import Recipe, fit

from ..data.acm import acm
from ..data.heterophilous import heterophilous
from ..data.planted import two_relations
from ..tasks.graphs.hetero_accuracy import typed_accuracies
from .claim import Claim, Curve, Panel, apart, over_seeds
from .networks import SAYS, trained

TEST = "claims: heterogeneity"
CLAIM = "Attention copes with graphs whose nodes and edges differ in kind."
GRAPHS = ("cornell", "wisconsin", "chameleon_filtered", "squirrel_filtered", "actor")
KINDS = ("gat", "gatv2", "mean", "gcn", "mlp")
AGREE = (0.4, 0.6, 0.8, 1.0)
TYPES = ("mlp", "mean", "gat", "simple_hgn", "hgt")
RECIPE = Recipe(dropout=0.5, rate=0.01, decay=5e-4, patience=30, epochs=150)
PLANTED = Recipe(dropout=0.0, rate=0.01, decay=5e-4, patience=30, epochs=150)
BY_RELATION = {
    "rgat": "R-GAT (a matrix a relation)",
    "simple_hgn": "SimpleHGN (relation in the score)",
    "gat": "GAT, without relations",
    "mean": "mean, without relations",
    "mlp": "MLP without edges",
}


def hetero(small: bool = False, seeds: int = 5, on_progress: ProgressCallback = no_progress) -> Claim:
    """Heterophilous graphs; two synthetic relations of varying informativeness; ACM by node and edge types."""
    left, within = list[str](), dict[str, float]()
    by_graph: dict[str, dict[str, list[float]]] = {}
    graphs, agrees = (GRAPHS[:3], AGREE[1::2]) if small else (GRAPHS, AGREE)
    stages = len(graphs) * seeds + len(agrees) + (not small)
    for place, name in enumerate(graphs):
        try:
            for split in range(seeds):
                on_progress(f"{name}, split {split + 1} of {seeds}", place * seeds + split, stages)
                task = heterophilous(name, split % 10)
                within[name] = round(agreement(task), 3)
                for kind in KINDS:
                    found = trained(kind, task, split, RECIPE, heads=4 if kind.startswith("gat") else 1)[1]
                    by_graph.setdefault(name, {}).setdefault(kind, []).append(found.test)
        except MissingData as problem:
            left.append(f"{name}: {problem}")
    panels = [_heterophilous(by_graph)] if by_graph else []
    table: dict[str, list[list[tuple[float, float, float]]]] = {}
    for done, agree in enumerate(agrees, len(graphs) * seeds):
        on_progress(f"two relations, one of which agrees in {agree:.0%}", done, stages)
        for kind in RELATED:
            table.setdefault(kind, []).append([related(kind, agree, seed) for seed in range(seeds)])
    panels += _relations(table, agrees)
    typed: dict[str, list[float]] = {}
    if small:
        left.append("ACM: not in the small setting (minutes a network); `regard train acm` runs it alone.")
    else:
        try:
            papers = acm()
            on_progress("ACM", stages - 1, stages)
            typed = {one.kind: [run.test for run in one.runs] for one in typed_accuracies(papers, range(seeds), TYPES)}
            panels.append(_acm(typed))
        except MissingData as problem:
            left.append(f"ACM: {problem}")
    return Claim(
        "hetero",
        CLAIM,
        tuple(_answer(by_graph, table, agrees, typed)),
        tuple(panels),
        seeds,
        {
            "heterophilous": "2 layers of 32, dropout 0.5",
            "edges within a class": within,
            "two relations": "600 nodes, 6 edges of each relation",
        },
        tuple(left),
    )


def related(kind: str, agree: float, seed: int) -> tuple[float, float, float]:
    """Test accuracy; the share of the first layer's weight on the informative relation; accuracy with relations
    shuffled at test time (NaN without edges)."""
    task, relation = two_relations(agree=agree, seed=seed)
    graph = (task.edge_index, relation)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = RelationalGNN(task.x.shape[1], 32, task.classes, kind)
        found = fit(model, replace(task, edge_index=graph), PLANTED)  # type: ignore[arg-type]
        shuffled = relation[torch.randperm(len(relation))]
    if kind == "mlp":
        return found.test, float("nan"), float("nan")
    model.eval()
    weights = model.edge_weights(task.x, graph)
    share = float(weights[relation == 0].sum() / weights.sum())
    with torch.no_grad():
        said = model(task.x, (task.edge_index, shuffled))[task.test].argmax(-1)
    return found.test, share, float((said == task.y[task.test]).float().mean())


def agreement(task: NodeTask) -> float:
    """Edge homophily: the share of edges within a class."""
    return float((task.y[task.edge_index[0]] == task.y[task.edge_index[1]]).float().mean())


def _heterophilous(by_graph: dict[str, dict[str, list[float]]]) -> Panel:
    names = tuple(by_graph)
    curves = tuple(
        Curve(
            SAYS[kind],
            tuple(
                over_seeds(
                    f"accuracy of {SAYS[kind]} on {name}",
                    by_graph[name][kind],
                    test=TEST,
                    baselines={"MLP without edges": by_graph[name]["mlp"]},
                )
                for name in names
            ),
        )
        for kind in KINDS
    )
    return Panel("Heterophilous graphs: neighbours seldom share a class", "graph", "test accuracy", names, curves)


def _relations(table: dict[str, list[list[tuple[float, float, float]]]], agrees: tuple[float, ...]) -> list[Panel]:
    made = []
    for column, title, y in (
        (0, "Two relations: accuracy by how informative one of them is", "test accuracy"),
        (1, "Two relations: weight on the informative relation", "share of the weight"),
        (2, "Two relations: accuracy with relations shuffled at test time", "test accuracy"),
    ):
        curves = tuple(
            Curve(
                BY_RELATION[kind],
                tuple(
                    over_seeds(
                        f"{title.partition(': ')[2]}: {BY_RELATION[kind]} at {agree:.0%}",
                        [run[column] for run in runs],
                        test=TEST,
                    )
                    for agree, runs in zip(agrees, table[kind], strict=True)
                ),
            )
            for kind in table
            if column == 0 or kind != "mlp"
        )
        limit = ("as many edges of each", 0.5) if column == 1 else None
        made.append(Panel(title, "share of the relation's edges within a class", y, agrees, curves, limit=limit))
    return made


def _acm(typed: dict[str, list[float]]) -> Panel:
    curve = Curve(
        "test accuracy",
        tuple(over_seeds(f"accuracy of {TYPED[kind].says} on ACM", runs, test=TEST) for kind, runs in typed.items()),
    )
    return Panel(
        "ACM: papers, authors, subjects",
        "network",
        "test accuracy",
        tuple(TYPED[kind].says for kind in typed),
        (curve,),
    )


def _answer(
    by_graph: dict[str, dict[str, list[float]]],
    table: dict[str, list[list[tuple[float, float, float]]]],
    agrees: tuple[float, ...],
    typed: dict[str, list[float]],
) -> list[str]:
    said = []
    for name, runs in by_graph.items():
        best = max(runs, key=lambda kind: float(np.mean(runs[kind])))
        gat, mean, mlp = (float(np.mean(runs[kind])) for kind in ("gat", "mean", "mlp"))
        said.append(
            f"{name}: GAT {gat:.3f} is {apart(runs['gat'], runs['mean'])} the mean of neighbours ({mean:.3f}) "
            f"and {apart(runs['gat'], runs['mlp'])} the MLP without edges ({mlp:.3f}); the highest: "
            f"{SAYS[best]}."
        )
    last = {kind: np.asarray(each[-1], dtype=np.float64).mean(0) for kind, each in table.items()}
    listed = ", ".join(f"{BY_RELATION[kind]} {found[0]:.2f}" for kind, found in last.items())
    weight = ", ".join(f"{BY_RELATION[kind]} {last[kind][1]:.2f}" for kind in ("rgat", "simple_hgn", "gat"))
    said.append(
        f"Two relations, one of which agrees in {agrees[-1]:.0%}: {listed}. Weight on that relation: {weight}. "
        f"With relations shuffled when judged R-GAT falls to {last['rgat'][2]:.2f}."
    )
    if typed:
        said.append(
            "ACM: " + ", ".join(f"{TYPED[kind].says} {np.mean(runs):.3f}" for kind, runs in typed.items()) + "."
        )
    return said
