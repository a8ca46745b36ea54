"""Every model of the comparison: what it is, the settings that are searched for it, and how it predicts a fold."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..protocol.fold import Fold, mean_effects
from .attention_variants import ABLATED, ATTENTION, PLACES, place_of, variant_says
from .linear import elastic_net, neighbours, ridge
from .tree_ensembles import boosting, forest

Setting = dict[str, Any]
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Prediction:
    """response (D, L), defined at least where the fold is judged; parameters: how many were trained, if counted."""

    response: np.ndarray
    parameters: int | None = None


@dataclass(frozen=True)
class ResponseModel:
    """A model and the settings that a random search draws from; `usual` is its first draw.

    Models without settings (mean effects) are not searched.
    """

    says: str
    family: str
    fit: Callable[[Fold, Setting, int, str, Progress], Prediction]
    usual: Mapping[str, Any]
    searched: Mapping[str, tuple[Any, ...]]


def _means(drug: bool, line: bool) -> Callable[[Fold, Setting, int, str, Progress], Prediction]:
    return lambda fold, setting, seed, device, report: Prediction(mean_effects(fold.known, drug, line))


def _quiet(
    fit: Callable[..., np.ndarray], seeded: bool = False
) -> Callable[[Fold, Setting, int, str, Progress], Prediction]:
    """A model of scikit-learn or numpy; an elastic net that stops before it has converged is one of its settings."""

    def run(fold: Fold, setting: Setting, seed: int, device: str, report: Progress) -> Prediction:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Objective did not converge")
            return Prediction(fit(fold, setting, seed) if seeded else fit(fold, setting))

    return run


def _network(variant: str) -> Callable[[Fold, Setting, int, str, Progress], Prediction]:
    def run(fold: Fold, setting: Setting, seed: int, device: str, report: Progress) -> Prediction:
        from ..protocol.training import predict, train  # imports torch

        network, twin = train(fold, variant, setting, seed, device, report)
        count = sum(one.numel() for one in network.parameters())
        return Prediction(predict(fold, network, twin, variant), count)

    return run


BASELINES: dict[str, ResponseModel] = {
    "means": ResponseModel("mean effects of drugs and cell lines", "means", _means(True, True), {}, {}),
    "drug-mean": ResponseModel("mean of each drug", "means", _means(True, False), {}, {}),
    "line-mean": ResponseModel("mean of each cell line", "means", _means(False, True), {}, {}),
    "ridge": ResponseModel(
        "ridge per drug on expression",
        "linear",
        _quiet(ridge),
        {"components": 60, "penalty": 1000, "smoothing": 1.0},
        {"components": (30, 60, 120, 240), "penalty": (300, 1000, 3000, 10000), "smoothing": (0.3, 1.0, 3.0)},
    ),
    "elastic-net": ResponseModel(
        "elastic net per drug on genes",
        "linear",
        _quiet(elastic_net),
        {"penalty": 0.3, "share": 0.2, "genes": 200, "smoothing": 1.0},
        {
            "penalty": (0.1, 0.2, 0.3, 0.5),
            "share": (0.1, 0.2, 0.5),
            "genes": (100, 200, 400),
            "smoothing": (0.3, 1.0, 3.0),
        },
    ),
    "neighbours": ResponseModel(
        "k nearest neighbours",
        "neighbours",
        _quiet(neighbours),
        {"neighbours": 20, "shrink": 1.0},
        {"neighbours": (5, 10, 20, 40, 80), "shrink": (0.3, 1.0, 3.0)},
    ),
    "forest": ResponseModel(
        "random forest on fingerprints and omics",
        "trees",
        _quiet(forest, True),
        {"trees": 30, "leaf": 2, "share": 0.3, "rows": 0.1},
        {"trees": (30, 100), "leaf": (1, 2, 3, 5), "share": (0.2, 0.3, 0.5), "rows": (0.1, 0.2, 0.4)},
    ),
    "boosting": ResponseModel(
        "gradient boosting on fingerprints and omics",
        "trees",
        _quiet(boosting, True),
        {"rounds": 200, "rate": 0.1, "leaves": 63, "leaf": 20, "l2": 1.0, "share": 0.3},
        {
            "rounds": (150, 200, 300),
            "rate": (0.07, 0.1, 0.15),
            "leaves": (31, 63, 127),
            "leaf": (10, 20, 50),
            "l2": (0.0, 1.0, 10.0),
            "share": (0.3, 0.6),
        },
    ),
}
NETWORK = {"width": 64, "layers": 2, "heads": 2, "dropout": 0.3, "rate": 5e-3, "decay": 1.0, "epochs": 40}
SEARCHED = {
    "width": (32, 64, 128),
    "layers": (1, 2, 3),
    "heads": (1, 2, 4),
    "dropout": (0.2, 0.4, 0.6),
    "rate": (2e-3, 5e-3, 1e-2),
    "decay": (0.1, 1.0, 3.0),
    "epochs": (20, 40, 80),
}
SMALLER = {"width": (64,), "layers": (1,), "heads": (1,), "dropout": (0.2, 0.4), "epochs": (21,)}  # the small setting
SMALLER_TREES: dict[str, dict[str, tuple[Any, ...]]] = {
    "forest": {"trees": (30,), "share": (0.2, 0.3), "rows": (0.1, 0.15)},
    "boosting": {"rounds": (150, 200), "rate": (0.1, 0.15), "leaves": (63,), "share": (0.3,)},
}
NETWORKS = (*PLACES, *ABLATED)
NAMES = (*BASELINES, *NETWORKS)
BEST_OF_TREES = "boosting"


def model_of(name: str) -> ResponseModel:
    """The model of a name: a baseline, a place of attention, or `place/ablation`."""
    if name in BASELINES:
        return BASELINES[name]
    place, ablation = place_of(name)
    family = "ablation" if ablation else "attention" if place.site else "network"
    return ResponseModel(variant_says(name), family, _network(name), NETWORK, SEARCHED)


def draws(name: str, count: int, seed: int, small: bool = False) -> list[Setting]:
    """The settings that are tried for a model: its usual one and random ones, `count` together.

    A place and its ablations draw the same. A model with fewer settings than `count` tries all of them.
    """
    from sklearn.model_selection import ParameterSampler

    model = model_of(name)
    if not model.searched:
        return [{}]
    space: dict[str, Any] = {key: list(values) for key, values in model.searched.items()}
    usual = dict(model.usual)
    if small and name in BASELINES:
        space |= {key: list(values) for key, values in SMALLER_TREES.get(name, {}).items()}
    if small and name in NETWORKS:
        space |= {key: list(values) for key, values in SMALLER.items()}
        usual |= {"layers": 1, "heads": 1, "epochs": 21}
    whole = int(np.prod([len(values) for values in space.values()]))
    found = [usual]
    for one in ParameterSampler(space, min(whole, 4 * count), random_state=seed):
        if one not in found:
            found.append(one)
    return found[:count]


__all__ = ["ATTENTION", "BASELINES", "NAMES", "NETWORKS", "Prediction", "ResponseModel", "draws", "model_of"]
