"""Where the reason is known: are the atoms and bonds that make a label so the ones that are looked at?"""

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs, NotApplicable
from ..attribution.edge_importance import (
    OfNodes,
    chance_of_nodes,
    degree_of_nodes,
    degree_of_units,
    edge_selector_of,
    gatt_of_nodes,
    gradient_of_nodes,
    layers_of,
    mass,
    readout,
)
from ..attribution.importance import Importance, chance
from ..finding import Finding
from ..registry import asks
from ..statistics.comparison import compare
from ..wording import amount, percent
from .correlation import kendall
from .faithfulness import DRAWS

TEST = "ground truth"
Level = Literal["nodes", "edges"]


def ground_truth(
    adapter: Adapter,
    measures: "Mapping[str, Importance | OfNodes] | None" = None,
    *,
    level: Level = "nodes",
    seed: int = 0,
) -> list[Finding]:
    """The area under the ROC curve of a measure against the nodes, or edges, that are the reason; mean over graphs.

    A graph may have several admissible explanations, one a column of its gold: the best of the columns counts (as the
    data's authors do), and the mean of the columns stands beside it. The best of several draws is above 0.5 even for
    chance, so random scores go through the same choice; degree too. An edge is in an explanation when both of its ends
    are. A graph whose every or no node is marked is undefined (a molecule without the reason has no mark).

    level      "nodes": how much each node is looked at by the others (mean of layers), by the readout, by GAtt, and
               gradient . features; "edges": the weights of the edges themselves, and the gradient of their masks
    measures   others by name, (adapter, inputs) -> (N,) for nodes, (B, n) for edges

    Sanchez-Lengeling et al. 2020.
    """
    if level not in ("nodes", "edges"):
        raise ValueError(f"ground_truth(level={level!r}): expected 'nodes' or 'edges'.")
    measures = dict((of_nodes() if level == "nodes" else layers_of(adapter)) if measures is None else measures)
    degree: Importance = degree_of_nodes if level == "nodes" else degree_of_units
    drawn = [
        areas(adapter, (chance_of_nodes if level == "nodes" else chance)(seed + draw), level) for draw in range(DRAWS)
    ]
    beside = {"random": np.stack(drawn), "degree": areas(adapter, degree, level)}
    made = []
    for name, measure in measures.items():
        found = areas(adapter, measure, level)
        for column, of in ((0, "best explanation"), (1, "mean of the explanations")):
            baselines = {other: values[..., column] for other, values in beside.items()}
            value = compare(found[:, column], baselines, scale=(0.0, 1.0), seed=seed)
            made.append(
                Finding.of(
                    value,
                    name=f"AUC of {name} on {level}, {of}",
                    better="higher",
                    test=TEST,
                    unit="AUC",
                    says="undefined: no graph has both marked and unmarked ones."
                    if value.value is None
                    else f"Of two {level}, one of them a reason, {name} ranks the reason first in "
                    f"{percent(value.value)} of all comparisons; random scores in "
                    f"{percent(value.baselines['random'] or 0.0)}, degree in "
                    f"{percent(value.baselines['degree'] or 0.0)}.",
                )
            )
    return made


@asks("Do the weights lie on the nodes and edges of the known explanation?", edges=True, aspect="plausibility")
def reasons(adapter: Adapter, *, seed: int = 0) -> list[Finding]:
    """`ground_truth` of nodes and of edges, for graphs that carry their reason."""
    return [*ground_truth(adapter, seed=seed), *ground_truth(adapter, level="edges", seed=seed)]


def agreement(
    adapter: Adapter, measures: "Mapping[str, OfNodes] | None" = None, *, magnitude: bool = False, seed: int = 0
) -> list[Finding]:
    """Kendall's tau-b with gold that is a number for each node, its share in the answer; mean over graphs.

    magnitude: with the size of the share, whatever its sign. Weights have no sign and cannot tell a share that raises
    the answer from one that lowers it.
    """
    measures = of_nodes(towards=1) if measures is None else measures
    what = "the size of each node's share" if magnitude else "each node's share"
    beside = {
        "random": np.stack([taus(adapter, chance_of_nodes(seed + draw), magnitude) for draw in range(DRAWS)]),
        "degree": taus(adapter, degree_of_nodes, magnitude),
    }
    made = []
    for name, measure in measures.items():
        value = compare(taus(adapter, measure, magnitude), beside, scale=(-1.0, 1.0), seed=seed)
        made.append(
            Finding.of(
                value,
                name=f"tau of {name} and {what}",
                better="higher",
                test=TEST,
                unit="Kendall tau-b",
                says=f"undefined: no graph has three nodes that both {name} and {what} rank."
                if value.value is None
                else f"{name} orders the nodes as {what} does by {amount(value.value, 2)}, where 1 is the same order "
                "and 0 chance.",
            )
        )
    return made


def of_nodes(towards: int | None = None) -> dict[str, OfNodes]:
    """The measures of nodes, by name."""
    return {"attention": mass, "readout": readout(), "GAtt": gatt_of_nodes, "gradient": gradient_of_nodes(towards)}


def areas(adapter: Adapter, measure: "Importance | OfNodes", level: Level = "nodes") -> np.ndarray:
    """(instances, 2): AUC of the best explanation, and the mean over explanations; NaN where undefined."""

    def of_batch(inputs: Inputs) -> list[tuple[float, float]]:
        found = measure(adapter, inputs)
        if level == "nodes":
            return [best_and_mean(score, gold) for score, gold in _by_case(adapter, inputs, found)]
        return [
            best_and_mean(found[item, 1 : 1 + len(gold)].cpu().numpy(), gold)
            for item, gold in enumerate(_edge_golds(adapter, inputs))
        ]

    return np.asarray(adapter.each(of_batch), dtype=np.float64).reshape(-1, 2)


def taus(adapter: Adapter, measure: OfNodes, magnitude: bool = False) -> np.ndarray:
    """(instances,): tau-b with the first column of gold."""

    def of_batch(inputs: Inputs) -> list[float]:
        parts = _by_case(adapter, inputs, measure(adapter, inputs))
        return [kendall(score, np.abs(gold[:, 0]) if magnitude else gold[:, 0])[0] for score, gold in parts]

    return np.asarray(adapter.each(of_batch), dtype=np.float64)


def best_and_mean(scores: ArrayLike, gold: np.ndarray) -> tuple[float, float]:
    """AUC of scores (n,) against the columns of gold (n, explanations): the best and the mean of those defined."""
    from sklearn.metrics import roc_auc_score

    marks = np.asarray(gold) > 0
    found = [float(roc_auc_score(one, scores)) for one in marks.T if one.any() and not one.all()]
    return (max(found), float(np.mean(found))) if found else (math.nan, math.nan)


def edge_gold(gold: Tensor, edge_index: Tensor, unit: Tensor, units: int) -> np.ndarray:
    """(units, explanations): 1 where both ends of a unit's edges are marked."""
    marks = gold > 0
    both = marks[edge_index[0]] & marks[edge_index[1]]
    made = torch.zeros((units, gold.shape[1]), dtype=torch.bool)
    made[unit[unit >= 0]] = both[unit >= 0]
    return made.numpy()


def _golds(adapter: Adapter, inputs: Inputs) -> list[Tensor]:
    gold = edge_selector_of(adapter).cases.gold  # type: ignore[union-attr]
    if gold is None:
        raise NotApplicable(
            "No graph carries its reason (gold, a column for each admissible explanation): whether it is "
            "looked at cannot be said."
        )
    found = [gold[-1 - case] for case in inputs.tokens[:, 0].tolist()]
    return [one if one.ndim == 2 else one[:, None] for one in found]


def _by_case(adapter: Adapter, inputs: Inputs, scores: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
    golds = _golds(adapter, inputs)
    parts = scores.detach().cpu().numpy()
    cuts = np.cumsum([len(gold) for gold in golds])[:-1]
    return [(part, gold.numpy()) for part, gold in zip(np.split(parts, cuts), golds, strict=True)]


def _edge_golds(adapter: Adapter, inputs: Inputs) -> list[np.ndarray]:
    cases = edge_selector_of(adapter).cases
    assert cases is not None
    made = []
    for gold, case in zip(_golds(adapter, inputs), (-1 - inputs.tokens[:, 0]).tolist(), strict=True):
        span = slice(int(cases.edge_start[case]), int(cases.edge_start[case + 1]))
        made.append(edge_gold(gold, cases.edge_index[:, span].cpu(), cases.unit[span].cpu(), len(cases.ids[case])))
    return made
