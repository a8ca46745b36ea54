"""Trains and judges the GATs of docs/judge/graphs.md: python docs/make_graph_findings.py FOLDER [cora picture ...].

Writes the findings as JSON and, for benzene, the picture of a molecule. Data are read from REGARD_DATA.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib
import torch

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from regard.data import planetoid
from regard.judging import Finding, to_json
from regard.judging.adapters.graph_adapter import on_graph, on_graphs
from regard.judging.attribution.edge_importance import layers_of, mass
from regard.judging.tests.ablation import ablation
from regard.judging.tests.adversarial import adversary
from regard.judging.tests.correlation import correlation
from regard.judging.tests.faithfulness import faithfulness
from regard.judging.tests.fidelity import fidelity
from regard.judging.tests.ground_truth import agreement, ground_truth
from regard.judging.tests.permutation import permutation
from regard.lab.claims.interpretability import trained
from regard.models.training.node_training import train
from regard.views import graph_map
from regard.views.payload.graph_layout import layout_nodes

# the order of the first columns of the data
ATOMS = [
    "C",
    "N",
    "O",
    "S",
    "F",
    "P",
    "Cl",
    "Br",
    "Na",
    "Ca",
    "I",
    "B",
    "H",
    "*",
]
NODES, GRAPHS = 300, 300
LOOK = Path(__file__).parent / "images" / "judge"


def cora() -> list[Finding]:
    task = planetoid("cora")
    model, found = train("gat", task, 0)
    print("cora: test accuracy", found.test, flush=True)
    nodes = task.test.nonzero()[:, 0][::3][:NODES].tolist()
    near = on_graph(model, task.x, task.edge_index, nodes, task.y, hops=2, size=64)
    made = ablation(near, heads=False) + correlation(near) + permutation(near, times=50)
    made += adversary(near, starts=3, steps=200, rate=0.05) + faithfulness(near)
    wide = on_graph(model, task.x, task.edge_index, nodes, task.y, hops=2, units="all", size=64)
    for share in (0.1, 0.2, 0.5):
        made += fidelity(wide, share=share)
    return made + fidelity(wide, share=0.2, kind="phenomenon")


def whole_graphs(name: str) -> list[Finding]:
    model, task, right = trained(name)
    print(f"{name}: test", right, flush=True)
    if name == "crippen":
        adapter = on_graphs(model, task.test)
        return agreement(adapter) + agreement(adapter, magnitude=True)
    some = on_graphs(model, task.test[:GRAPHS])
    made = ablation(some, heads=False) + correlation(some) + faithfulness(some)
    for share in (0.1, 0.2, 0.5):
        made += fidelity(some, share=share)
    adapter = on_graphs(model, [one for one in task.test if bool((one.gold > 0).any())])
    made += ground_truth(adapter) + ground_truth(adapter, level="edges")
    if name == "benzene":
        picture(model, task)
    return made


def picture(model: Any, task: Any) -> None:
    """One molecule: the reason, and what attention (all layers), GAtt and the gradient mark."""
    one = next(x for x in task.test if x.gold.shape[1] == 1 and bool((x.gold > 0).any()) and 14 <= x.length <= 18)
    adapter = on_graphs(model, [one], bonds=False)
    inputs = adapter.inputs([0])
    names = [ATOMS[int(kind)] for kind in one.inputs[:, :14].argmax(-1)]
    marks = one.gold[:, 0] > 0
    truth = (marks[one.edges[0]] & marks[one.edges[1]]).double()
    measures = layers_of(adapter)
    drawn = {"the reason: a benzene ring": truth}
    for title, name in (
        ("attention, mean of layers", "attention, mean of layers"),
        ("GAtt", "GAtt"),
        ("gradient of edge masks", "gradient"),
    ):
        drawn[title] = measures[name](adapter, inputs)[0, 1:].clamp_min(0)
    looked = mass(adapter, inputs)
    spots = layout_nodes(*one.edges.numpy(), one.length)
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.4), layout="constrained")
    fills = ["#c2410c" if mark else "#475569" for mark in marks]
    for ax, (title, weight) in zip(axes, drawn.items(), strict=True):
        for a, b in one.edges.T.tolist():
            ax.plot(*spots[[a, b]].T, color="0.8", lw=0.8, zorder=0)
        graph_map(weight, one.edges, spots, colours=fills, names=names, ax=ax, size=13)
        ax.set_title(title, fontsize=11)
        ax.set_aspect("equal")
    LOOK.mkdir(exist_ok=True)
    figure.savefig(LOOK / "molecule.png", dpi=110)
    print("looked at:", [f"{name} {value:.2f}" for name, value in zip(names, looked.tolist(), strict=True)])


def main() -> None:
    folder, *wanted = sys.argv[1:]
    torch.set_num_threads(1)
    for name in wanted or ("cora", "benzene", "logic10", "crippen"):
        if name == "picture":
            model, task, _ = trained("benzene")
            picture(model, task)
            continue
        found = cora() if name == "cora" else whole_graphs(name)
        Path(folder, f"{name}.json").write_text(to_json(found), encoding="utf-8")
        for one in found:
            print(one, flush=True)


if __name__ == "__main__":
    main()
