"""Splits by what is unseen: new pairs, cell lines, tissues, drugs or scaffolds."""

from functools import lru_cache

import numpy as np

from ...data.drug_panel import DrugPanel

FOLDS = 5
OVERLAP = 1 / (FOLDS - 1)  # test instances over training instances, for Nadeau and Bengio's correction
SCAFFOLD_DISTANCE = 0.7  # scaffolds whose fingerprints are nearer (Tanimoto, average linkage) are one group
SPLITS = {
    "pairs": "new pairs",
    "cells": "new cell lines",
    "tissues": "new tissues",
    "drugs": "new drugs",
    "scaffolds": "new scaffolds",
}
NEW_DRUG, NEW_LINE = ("drugs", "scaffolds"), ("cells", "tissues")


def divide(panel: DrugPanel, kind: str, seed: int, within: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(training, test): masks (D, L) of the measured pairs; a fifth is held out, and groups stay together.

    kind    what is unseen in training, see `SPLITS`
    seed    seeds 5 r to 5 r + 4 are the five folds of division r
    within  mask of the pairs to divide: the training part of another division, for a nested one
    """
    known = panel.measured if within is None else within
    if kind not in SPLITS:
        raise ValueError(f"divide(kind={kind!r}): expected {', '.join(SPLITS)}.")
    division, fold = divmod(seed, FOLDS)
    draw = np.random.default_rng([division, int(within is not None)])
    if kind == "pairs":
        parts = draw.integers(FOLDS, size=known.shape)
    else:
        along_drugs = kind in NEW_DRUG
        groups = _groups(panel, kind)
        present = known.any(1 if along_drugs else 0)
        one = _balanced(groups, known.sum(1 if along_drugs else 0) * present, draw)
        parts = np.broadcast_to(one[:, None] if along_drugs else one[None], known.shape)
    return known & (parts != fold), known & (parts == fold)


def _balanced(groups: np.ndarray, sizes: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Whole groups into folds of about equal size: in a random order, large ones first, each into the emptiest fold."""
    weight = np.bincount(groups, sizes)
    order = draw.permutation(len(weight))
    if weight.max() > 0.02 * weight.sum():  # tissues: random order alone would make folds of very different sizes
        order = order[np.argsort(-np.round(np.log2(weight[order] + 1)), kind="stable")]
    filled, fold = np.zeros(FOLDS), np.zeros(len(weight), dtype=int)
    for group in order:
        emptiest = draw.choice(np.flatnonzero(filled <= filled.min() + 1e-9))
        fold[group] = emptiest
        filled[emptiest] += weight[group]
    return fold[groups]


def _groups(panel: DrugPanel, kind: str) -> np.ndarray:
    """The group of each drug or cell line."""
    if kind == "drugs":
        return np.arange(len(panel.names))
    if kind == "cells":
        return np.arange(len(panel.lines))
    if kind == "tissues":
        return np.unique(panel.tissues, return_inverse=True)[1]
    return scaffold_groups(panel.scaffolds)


@lru_cache(maxsize=4)
def scaffold_groups(scaffolds: tuple[str, ...]) -> np.ndarray:
    """Drugs clustered by scaffold similarity, since nearly every drug has a unique scaffold."""
    from sklearn.cluster import AgglomerativeClustering

    from ...data.drug_panel import fingerprint

    unique, place = np.unique(scaffolds, return_inverse=True)
    bits = np.stack([fingerprint(one) for one in unique])
    distance = 1 - tanimoto(bits, bits)
    cut = AgglomerativeClustering(
        n_clusters=None, distance_threshold=SCAFFOLD_DISTANCE, metric="precomputed", linkage="average"
    )
    groups: np.ndarray = cut.fit_predict(distance)[place]
    return groups


def tanimoto(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(n, bits), (m, bits) of 0 and 1  ->  (n, m): bits that both have over bits that either has."""
    both = first @ second.T
    return both / np.maximum(first.sum(1)[:, None] + second.sum(1)[None] - both, 1)
