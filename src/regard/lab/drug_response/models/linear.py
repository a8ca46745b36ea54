"""Linear models and neighbours: one regression per drug on omics, carried to new drugs by their fingerprints."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..protocol.fold import Fold


def ridge(fold: Fold, setting: Mapping[str, Any]) -> np.ndarray:
    """One ridge regression per drug on principal components of expression.

        y_dl = offset_dl + c_d + w_d . z_l,   w_d by least squares with penalty |w|^2

    setting   components, penalty; smoothing: of `carried` for new drugs
    """
    z = fold.components("expression", int(setting["components"]))
    weights = np.zeros((len(fold.panel.names), z.shape[1] + 1))
    for drug in fold.drugs:
        some = fold.train[drug]
        x, y = z[some], fold.residual[drug, some]
        centre, level = x.mean(0), float(y.sum() / (len(y) + 1))  # one response more at 0: drugs measured on few lines
        gram = (x - centre).T @ (x - centre) + float(setting["penalty"]) * np.eye(z.shape[1])
        slope = np.linalg.solve(gram, (x - centre).T @ (y - y.mean()))
        weights[drug] = [level - centre @ slope, *slope]
    return _from_weights(fold, z, weights, setting)


def elastic_net(fold: Fold, setting: Mapping[str, Any]) -> np.ndarray:
    """One elastic net per drug on the expression of the most variable genes.

    setting   penalty, share (of L1), genes, smoothing
    """
    from sklearn.linear_model import ElasticNet

    x = fold.omics["expression"].astype(np.float64)
    relation = np.abs(np.nan_to_num(fold.residual[:, fold.lines]).dot(x[fold.lines])).mean(0)
    z = x[:, np.argsort(-relation)[: int(setting["genes"])]]
    weights = np.zeros((len(fold.panel.names), z.shape[1] + 1))
    for drug in fold.drugs:
        some = fold.train[drug]
        one = ElasticNet(alpha=float(setting["penalty"]), l1_ratio=float(setting["share"]), tol=1e-2, max_iter=200)
        one.fit(z[some], fold.residual[drug, some])
        weights[drug] = [one.intercept_, *one.coef_]
    return _from_weights(fold, z, weights, setting)


def neighbours(fold: Fold, setting: Mapping[str, Any]) -> np.ndarray:
    """Residuals of the nearest cell lines (by expression) or, for new drugs, of the nearest drugs.

        y_dl = offset_dl + sum_m s_lm r_dm / (count-weighted sum + shrink),   s: similarity over the k nearest

    setting   neighbours, shrink
    """
    known, residual = fold.train, np.nan_to_num(fold.residual)
    if fold.new_drugs:
        likeness = fold.likeness.copy()
        likeness[:, ~known.any(1)] = 0
        weight = _nearest(likeness, int(setting["neighbours"]))
        return fold.offset + (weight @ residual) / (weight @ known + 0.05 * float(setting["shrink"]) + 1e-9)
    z = fold.components("expression", 60)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    likeness = np.maximum(z @ z.T, 0)
    np.fill_diagonal(likeness, 0)
    likeness[:, ~known.any(0)] = 0
    weight = _nearest(likeness, int(setting["neighbours"]))
    return fold.offset + (residual @ weight.T) / (known @ weight.T + 0.2 * float(setting["shrink"]))


def _nearest(likeness: np.ndarray, count: int) -> np.ndarray:
    """The `count` largest of each row, 0 elsewhere."""
    bound = np.sort(likeness, 1)[:, -count][:, None]
    return np.where(likeness >= bound, likeness, 0.0)


def _from_weights(fold: Fold, z: np.ndarray, weights: np.ndarray, setting: Mapping[str, Any]) -> np.ndarray:
    if fold.new_drugs:
        weights = carried(fold, weights, float(setting["smoothing"]))
    return fold.offset + weights[:, :1] + weights[:, 1:] @ z.T


def carried(fold: Fold, weights: np.ndarray, smoothing: float) -> np.ndarray:
    """Weights (D, p) of every drug, by kernel ridge regression from those of the training drugs.

        W = mean + K (K_tt + smoothing I)^-1 (W_t - mean),   K: Tanimoto similarity of fingerprints

    The second step of two-step kernel ridge regression (Stock et al. 2020).
    """
    known = fold.drugs
    mean = weights[known].mean(0)
    kernel = fold.likeness[np.ix_(known, known)] + smoothing * np.eye(len(known))
    return mean + fold.likeness[:, known] @ np.linalg.solve(kernel, weights[known] - mean)
