"""Is the cross-attention of a drug a reason? Does it rank the genes that the drug is known to act on?"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard.judging.finding import Finding
from regard.judging.statistics.comparison import compare

from ...data.drug_panel import DrugPanel
from ..models.network import ResponseNetwork
from ..protocol.fold import Fold
from ..protocol.training import LINES, train
from .drug_targets import target_genes, with_neighbours

LINES_READ = 64  # training lines over which weights and gradients are averaged
SEEDS = 3
TREES, SHARE = 60, 0.1  # of the forest of a drug, and the genes that a split looks at


def judge_reasons(
    panel: DrugPanel,
    setting: Mapping[str, Any],
    seeds: int = SEEDS,
    device: str = "cpu",
    out: "Path | None" = None,
    on_progress: Callable[[str, int, int], None] = lambda says, done, of: None,
    compute: bool = True,
) -> list[Finding]:
    """Rank of known targets among the genes, by six sources of importance, over the drugs with a target in the panel.

    The measure is the area under the ROC curve of a drug: the chance that a target of it outranks another gene; 1/2 is
    chance. Values are means over seeds (a network and a fold each), and drugs are resampled.

    cross-attention    its weights, averaged over heads and 64 training lines
    beside it          another drug's weights (chance, for what all drugs attend to alike), the gradient of the response
                       by a gene's expression, importances of a forest of the drug's own, weights of ridge regression,
                       and cross-attention whose weights were frozen before training

    out       a folder where each seed's areas are kept: an interrupted run resumes
    compute   whether to compute the seeds that are missing there; without any, there are no findings
    """
    targets = target_genes(panel)
    wide = [with_neighbours(genes, panel.proteins) if genes else [] for genes in targets]
    drugs = [drug for drug, genes in enumerate(targets) if genes]
    areas: list[dict[str, list[list[float]]]] = []
    for seed in range(seeds):
        on_progress("targets of drugs", seed, seeds)
        kept = None if out is None else out / f"reasons-{seed}.json"
        if kept is not None and kept.exists():
            areas.append(json.loads(kept.read_text()))
            continue
        if not compute:
            continue
        scores = importances(Fold.of(panel, "cells", seed), setting, seed, drugs, device)
        made = {
            name: [[area(table[drug], genes[drug]) for drug in drugs] for genes in (targets, wide)]
            for name, table in scores.items()
        }
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            part = kept.with_suffix(".part")
            part.write_text(json.dumps(made))
            part.replace(kept)
        areas.append(made)
    on_progress("targets of drugs", seeds, seeds)
    if not areas:
        return []
    return [
        _finding({name: np.mean([one[name][at] for one in areas], 0) for name in areas[0]}, says)
        for at, says in enumerate(("target", "target or a neighbour of it in the protein network"))
    ]


def importances(
    fold: Fold, setting: Mapping[str, Any], seed: int, drugs: list[int], device: str = "cpu"
) -> dict[str, np.ndarray]:
    """By source: (D, G), how important each gene is for each drug."""
    network, _ = train(fold, "cross", setting, seed, device)
    _, twin = train(fold, "cross/frozen", setting, seed, device)
    assert twin is not None
    draw = np.random.default_rng(seed)
    lines = torch.from_numpy(np.sort(draw.choice(fold.lines, min(LINES_READ, len(fold.lines)), replace=False)))
    weights = attention_on_genes(network, lines.to(device))
    other = weights[_deranged(len(weights), draw)]
    return {
        "cross-attention": weights,
        "another drug's weights": other,
        "gradient": gradient_on_genes(network, lines.to(device)),
        "forest of the drug": forest_on_genes(fold, drugs, seed),
        "ridge of the drug": ridge_on_genes(fold),
        "frozen attention": attention_on_genes(twin, lines.to(device)),
    }


def attention_on_genes(network: ResponseNetwork, lines: torch.Tensor) -> np.ndarray:
    """(D, G): the weight of each gene for each drug, averaged over heads and cell lines."""
    drugs = torch.arange(network.drugs, device=lines.device)
    total = torch.zeros((), dtype=torch.float64)
    for some in lines.split(LINES):
        with torch.no_grad(), regard.record(network, keep="weights") as record:
            network(drugs, some)
        weights = record.maps["meeting"].weights()  # (B, H, D, G)
        total = total + weights.mean(1).sum(0).double().cpu()
    found: np.ndarray = (total / len(lines)).numpy()
    return found


def gradient_on_genes(network: ResponseNetwork, lines: torch.Tensor) -> np.ndarray:
    """(D, G): |d y_dl / d x_lg|, averaged over cell lines."""
    drugs = torch.arange(network.drugs, device=lines.device)
    x = network.expression
    made = []
    try:
        network.expression = x.clone().requires_grad_()
        for drug in drugs:
            y = network(drug[None], lines)
            (slope,) = torch.autograd.grad(y.sum(), network.expression)
            made.append(slope[lines].abs().mean(0).double().cpu().numpy())
    finally:
        network.expression = x
    return np.stack(made)


def forest_on_genes(fold: Fold, drugs: list[int], seed: int, share: float = SHARE) -> np.ndarray:
    """(D, G): importances of extremely randomised trees of a drug's own on expression; a gene's mutation adds to it.

    share   of the features that a split looks at
    """
    from sklearn.ensemble import ExtraTreesRegressor

    genes = len(fold.panel.symbols)
    x = np.concatenate([fold.omics["expression"], fold.omics["mutation"]], 1)
    found = np.zeros((len(fold.panel.names), genes))
    for drug in drugs:
        some = fold.train[drug]
        if some.sum() < 2:
            continue
        trees = ExtraTreesRegressor(TREES, min_samples_leaf=3, max_features=share, random_state=seed)
        trees.fit(x[some], fold.residual[drug, some])
        found[drug] = trees.feature_importances_.reshape(2, genes).sum(0)
    return found


def ridge_on_genes(fold: Fold, penalty: float = 1000.0) -> np.ndarray:
    """(D, G): |weights| of one ridge regression per drug on the expression of genes."""
    x = fold.omics["expression"].astype(np.float64)
    found = np.zeros((len(fold.panel.names), x.shape[1]))
    for drug in fold.drugs:
        some = fold.train[drug]
        centred = x[some] - x[some].mean(0)
        y = fold.residual[drug, some] - fold.residual[drug, some].mean()
        found[drug] = np.abs(
            centred.T @ np.linalg.solve(centred @ centred.T + penalty * np.eye(len(y)), y)
        )  # the dual form: fewer lines than genes
    return found


def area(scores: np.ndarray, genes: list[int]) -> float:
    """The area under the ROC curve: how often one of these genes outranks another; ties count half."""
    from scipy.stats import rankdata

    ranks, count = rankdata(scores), len(genes)
    rest = len(scores) - count
    return float((ranks[genes].sum() - count * (count + 1) / 2) / (count * rest)) if count and rest else float("nan")


def _deranged(count: int, draw: np.random.Generator) -> np.ndarray:
    """A permutation in which nobody stays: a turn of a random circle."""
    circle = draw.permutation(count)
    found = np.empty(count, dtype=int)
    found[circle] = np.roll(circle, 1)
    return found


def _finding(areas: Mapping[str, np.ndarray], says: str) -> Finding:
    others = {"chance": 0.5} | {name: values for name, values in areas.items() if name != "cross-attention"}
    found = compare(areas["cross-attention"], others, scale=(0.0, 1.0))
    return Finding.of(
        found,
        name=f"AUC of {says}",
        better="higher",
        test="reasons",
        unit="AUC",
        says=f"The weight on genes puts a {says} of the drug before another gene in {found.value or 0:.0%} of pairs; "
        "chance is 50%.",
    )
