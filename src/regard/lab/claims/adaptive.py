"""Adaptive weights: do they separate informative from uninformative neighbours, and does that help?"""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.judging.attribution.edge_importance import by_rivals
from regard.judging.progress import ProgressCallback, no_progress
from regard.models.deep_gnn import DeepGNN
from regard.nn.graph import GATConv, GATv2Conv

from ..data.lookup import Lookup, dictionary_lookup
from ..data.planted import csbm
from .claim import Claim, Curve, Panel, apart, over_seeds
from .networks import RECIPE, SAYS, trained

TEST = "claims: adaptive weights"
CLAIM = "Attention gives each neighbour the weight that it deserves; a fixed weight cannot."
SIGNALS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
KINDS = ("gat", "gatv2", "mean", "gcn", "mlp")
WORDS = (3, 5, 10)
STEPS = 300


def adaptive(small: bool = False, seeds: int = 5, on_progress: ProgressCallback = no_progress) -> Claim:
    """CSBM by class separation, with informative and uninformative edges; DictionaryLookup by size."""
    signals = (0.5, 1.5, 3.0) if small else SIGNALS
    right: dict[tuple[float, str], list[list[float]]] = {}
    within: dict[tuple[float, str], list[list[float]]] = {}
    words = WORDS[:2] if small else WORDS
    stages = 2 * len(signals) + len(words)
    for done, (same, signal) in enumerate(product((0.75, 0.5), signals)):
        on_progress(f"CSBM, {same:.0%} of the edges within a class, signal {signal:g}", done, stages)
        for kind in KINDS:
            ran = [_csbm(kind, same, signal, seed) for seed in range(seeds)]
            right.setdefault((same, kind), []).append([one[0] for one in ran])
            within.setdefault((same, kind), []).append([one[1] for one in ran])
    panels = [_accuracy(right, same, signals) for same in (0.75, 0.5)] + [_within(within, signals)]
    found: dict[str, list[list[tuple[float, float, float]]]] = {}
    for done, k in enumerate(words, 2 * len(signals)):
        on_progress(f"DictionaryLookup of {k} words", done, stages)
        for kind in ("gat", "gatv2"):
            found.setdefault(kind, []).append([lookup(kind, k, seed) for seed in range(seeds)])
    panels += _lookups(found, words)
    answer = _answer(right, within, signals, found, words)
    return Claim(
        "adaptive",
        CLAIM,
        tuple(answer),
        tuple(panels),
        seeds,
        {
            "CSBM": "400 nodes, mean degree 10, 8 features; 2 layers of 32, 4 heads",
            "DictionaryLookup": f"one layer of 32, 60 graphs seen and 20 not, {STEPS} steps",
        },
    )


def _csbm(kind: str, same: float, signal: float, seed: int) -> tuple[float, float]:
    """Test accuracy, and the AUC of the first layer's weights for edges within a class (NaN without weights)."""
    task = csbm(signal=signal, same=same, seed=seed)
    model, found = trained(kind, task, seed, RECIPE, heads=4 if kind.startswith("gat") else 1)
    return found.test, tells_apart(model, task.x, task.edge_index, task.y) if kind.startswith("gat") else math.nan


@torch.no_grad()
def tells_apart(model: DeepGNN, x: Tensor, edge_index: Tensor, y: Tensor) -> float:
    """AUC of the weights of the first layer, mean of heads, for edges between nodes of one class.

    Weights are normalised by their competitors: with many neighbours or a strong self-loop all weights are
    small. Uniform weights have exactly 0.5.
    """
    from sklearn.metrics import roc_auc_score

    h = model.eval().hidden(x, edge_index)[0]
    _, amap = model.layers[0](h, edge_index, return_map=True)
    weight = by_rivals(amap.edges().mean(0), edge_index[1], x.shape[0])
    same = (y[edge_index[0]] == y[edge_index[1]]).numpy()
    return float(roc_auc_score(same, weight.numpy().round(5)))  # weights are float32


def lookup(kind: str, k: int, seed: int) -> tuple[float, float, float]:
    """Accuracy on training dictionaries, on unseen ones, and the weight on the correct edge."""
    seen, unseen = dictionary_lookup(
        k, min(60, math.factorial(k) * 2 // 3), seed, held_out=min(20, math.factorial(k) // 3)
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Dictionary(k, GATv2Conv if kind == "gatv2" else GATConv)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            optimiser.zero_grad()
            F.cross_entropy(model(seen)[0], seen.y).backward()
            optimiser.step()
    with torch.no_grad():
        (out, weight), (other, _) = model(seen), model(unseen)
    right, general = (
        (said.argmax(-1) == part.y).float().mean().item() for said, part in ((out, seen), (other, unseen))
    )
    return right, general, weight[seen.answer].mean().item()


class Dictionary(nn.Module):
    """Embeddings of keys and values, one attention layer, and a value classifier."""

    def __init__(self, k: int, layer: type, width: int = 32):
        super().__init__()
        self.key, self.value = nn.Embedding(k, width), nn.Embedding(k + 1, width)  # the last value: none
        self.layer, self.answer = layer(width, width, add_self_loops=False), nn.Linear(width, k)

    def forward(self, task: Lookup) -> tuple[Tensor, Tensor]:
        """Logits of the query nodes, and the weight of each edge."""
        x, amap = self.layer(self.key(task.key) + self.value(task.value), task.edge_index, return_map=True)
        return self.answer(x[task.asks]), amap.edges().mean(0)


def _accuracy(right: dict[tuple[float, str], list[list[float]]], same: float, signals: tuple[float, ...]) -> Panel:
    curves = [
        Curve(
            SAYS[kind],
            tuple(
                over_seeds(
                    f"accuracy of {SAYS[kind]} at signal {signal:g}, {same:.0%} of edges within",
                    runs,
                    test=TEST,
                    baselines={"features alone, at best": _normal(signal)},
                )
                for signal, runs in zip(signals, right[same, kind], strict=True)
            ),
        )
        for kind in KINDS
    ]
    known = tuple(
        replace(one, name="features alone, at best", value=_normal(x), interval=None, baselines={}, differences={})
        for x, one in zip(signals, curves[0].findings, strict=True)
        if one is not None
    )
    what = "edges are uninformative" if same == 0.5 else "edges help"
    return Panel(
        f"CSBM: {same:.0%} of the edges within a class ({what})",
        "signal, mu / deviation",
        "test accuracy",
        signals,
        (*curves, Curve("features alone, at best", known)),
        limit=("chance", 0.5),
    )


def _within(within: dict[tuple[float, str], list[list[float]]], signals: tuple[float, ...]) -> Panel:
    curves = tuple(
        Curve(
            f"{SAYS[kind]}, {same:.0%} within",
            tuple(
                over_seeds(
                    f"AUC of {SAYS[kind]}'s weights for edges within a class, signal {signal:g}, {same:.0%} within",
                    runs,
                    test=TEST,
                    unit="AUC",
                    baselines={"chance": 0.5},
                )
                for signal, runs in zip(signals, within[same, kind], strict=True)
            ),
        )
        for same in (0.75, 0.5)
        for kind in ("gat", "gatv2")
    )
    return Panel(
        "CSBM: do the weights separate edges within a class from edges across?",
        "signal, mu / deviation",
        "AUC of the weights",
        signals,
        curves,
        limit=("chance", 0.5),
    )


def _lookups(found: dict[str, list[list[tuple[float, float, float]]]], words: tuple[int, ...]) -> list[Panel]:
    made = []
    for column, title, y in (
        (0, "DictionaryLookup: what was learned from", "share right"),
        (1, "DictionaryLookup: dictionaries that were not seen", "share right"),
        (2, "DictionaryLookup: weight on the edge that has the answer", "weight"),
    ):
        curves = tuple(
            Curve(
                SAYS[kind],
                tuple(
                    over_seeds(
                        f"{title.partition(': ')[2]}, {SAYS[kind]}, {k} words",
                        [run[column] for run in runs],
                        test=TEST,
                        baselines={"chance": 1 / k},
                    )
                    for k, runs in zip(words, found[kind], strict=True)
                ),
            )
            for kind in found
        )
        made.append(Panel(title, "words", y, words, curves))
    return made


def _answer(
    right: dict[tuple[float, str], list[list[float]]],
    within: dict[tuple[float, str], list[list[float]]],
    signals: tuple[float, ...],
    found: dict[str, list[list[tuple[float, float, float]]]],
    words: tuple[int, ...],
) -> list[str]:
    said = []
    for same in (0.75, 0.5):
        by_signal: dict[str, list[str]] = {"above": [], "below": [], "not significantly different from": []}
        for signal, gat, mean in zip(signals, right[same, "gatv2"], right[same, "mean"], strict=True):
            by_signal[apart(gat, mean)].append(f"{signal:g}")
        best: dict[str, list[str]] = {}
        for at, signal in enumerate(signals):
            means = {kind: float(np.mean(right[same, kind][at])) for kind in KINDS}
            best.setdefault(SAYS[max(means, key=means.__getitem__)], []).append(f"{signal:g}")
        highest = "; ".join(f"{who} at {', '.join(x)}" for who, x in best.items())
        told = "; ".join(f"{how} it at signal {', '.join(x)}" for how, x in by_signal.items() if x)
        said.append(
            f"CSBM, {same:.0%} of the edges within a class: GATv2 beside the plain mean of the neighbours is {told}. "
            f"The highest: {highest}."
        )
    low, high = (np.nanmean(within[0.75, "gatv2"][at]) for at in (0, -1))
    static = np.nanmean(within[0.75, "gat"][-1])
    said.append(
        f"GATv2's weights separate edges within a class from edges across with an AUC of {low:.2f} at signal "
        f"{signals[0]:g} and {high:.2f} at {signals[-1]:g}; GAT's, which rank neighbours alike for all, "
        f"{static:.2f} there."
    )
    share = {kind: [float(np.mean([run[0] for run in runs])) for runs in found[kind]] for kind in found}
    listed = ", ".join(
        f"{k} words: GAT {a:.0%}, GATv2 {b:.0%}" for k, a, b in zip(words, share["gat"], share["gatv2"], strict=True)
    )
    said.append(f"DictionaryLookup, even on what was learned from: {listed}.")
    return said


def _normal(x: float) -> float:
    """Phi(x): how often the sign of N(x, 1) is right."""
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))
