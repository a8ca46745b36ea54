"""Tree ensembles on fingerprints and omics, the strongest baselines of published benchmarks."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..protocol.fold import KINDS, Fold

DRUG_COMPONENTS = 40
LINE_COMPONENTS = {"expression": 40, "copy_number": 10, "mutation": 10, "methylation": 10}
ROWS = 1 << 17  # pairs predicted at a time


def tree_features(fold: Fold) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(D, f), (L, g) features of drugs and cell lines, and their names: principal components of the training part."""
    drug = fold.drug_components(DRUG_COMPONENTS)
    blocks = [fold.components(kind, LINE_COMPONENTS[kind]) for kind in KINDS]
    names = [f"fingerprint {at}" for at in range(drug.shape[1])]
    for kind, block in zip(KINDS, blocks, strict=True):
        names += [f"{kind} {at}" for at in range(block.shape[1])]
    return drug.astype(np.float32), np.concatenate(blocks, 1).astype(np.float32), names


def forest(fold: Fold, setting: Mapping[str, Any], seed: int = 0) -> np.ndarray:
    """A random forest of pairs. setting: trees, leaf (fewest pairs), share (of features at a split), rows."""
    from sklearn.ensemble import RandomForestRegressor

    made = RandomForestRegressor(
        n_estimators=int(setting["trees"]),
        min_samples_leaf=int(setting["leaf"]),
        max_features=float(setting["share"]),
        max_samples=float(setting["rows"]),
        random_state=seed,
        n_jobs=1,
    )
    return _fitted(fold, made)


def boosting(fold: Fold, setting: Mapping[str, Any], seed: int = 0) -> np.ndarray:
    """Histogram gradient boosting of pairs. setting: rounds, rate, leaves, leaf, l2, share (of features at a split)."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    made = HistGradientBoostingRegressor(
        max_iter=int(setting["rounds"]),
        learning_rate=float(setting["rate"]),
        max_leaf_nodes=int(setting["leaves"]),
        min_samples_leaf=int(setting["leaf"]),
        l2_regularization=float(setting["l2"]),
        max_features=float(setting["share"]),
        early_stopping=False,
        random_state=seed,
    )
    return _fitted(fold, made)


def _fitted(fold: Fold, model: Any) -> np.ndarray:
    drug, line, _ = tree_features(fold)
    d, l = np.nonzero(fold.train)
    model.fit(np.concatenate([drug[d], line[l]], 1), fold.residual[d, l])
    rows, columns = np.nonzero(fold.test)
    made = np.full(fold.test.shape, np.nan)
    for at in range(0, len(rows), ROWS):
        d, l = rows[at : at + ROWS], columns[at : at + ROWS]
        made[d, l] = model.predict(np.concatenate([drug[d], line[l]], 1))
    return fold.offset + np.where(fold.test, made, 0.0)
