"""One trial: a model is tuned within the training part of a fold, refitted on all of it, and tested once."""

import json
import time
from functools import lru_cache, partial
from typing import Any

from regard.studies.trial import Setting

from ...data.drug_panel import DrugPanel, drug_panel
from ..evaluation.metrics import measures
from ..models.candidates import draws, model_of
from .fold import Fold

TRIALS = 16  # settings that are tried for each model in the full setting
FEW = 2  # and in the small one
SHORTER = 3  # where the small setting compares settings of a network, each is trained for a third of its epochs


@lru_cache(maxsize=1)
def panel() -> DrugPanel:
    """The panel, read once a process."""
    return drug_panel()


@lru_cache(maxsize=2)
def fold_of(kind: str, seed: int) -> tuple[Fold, Fold]:
    """A fold, and the division of its training part in which settings are chosen."""
    fold = Fold.of(panel(), kind, seed)
    return fold, fold.inner()


def run_response(variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    """The measures of a model on the fold of a seed.

    options   held_out: a split; trials: how many settings are tried; small

    The setting with the least squared error on the inner split is refitted on the whole training part. Seconds are CPU
    time of this process.
    """
    import torch

    torch.set_num_threads(setting.threads)
    small = bool(setting.options.get("small", False))
    trials = int(setting.options.get("trials") or (FEW if small else TRIALS))
    fold, inner = fold_of(str(setting.options.get("held_out", "cells")), seed)
    began = time.process_time()
    model, tried = model_of(variant), draws(variant, trials, seed, small)
    errors: list[float] = []

    def report(at: int, share: float) -> None:
        setting.report((at + share) / (len(tried) + 1), f"setting {min(at + 1, len(tried))} of {len(tried)}")

    if len(tried) > 1:
        for at, one in enumerate(tried):
            shorter = {"epochs": one["epochs"] // SHORTER} if small and "epochs" in one else {}
            guess = model.fit(inner, one | shorter, seed, setting.device, partial(report, at))
            found = measures(guess.response, inner.panel.response, inner.test, inner.offset)
            errors.append(found["rmse"])
            report(at, 1.0)
    best = tried[errors.index(min(errors))] if errors else tried[0]
    made = model.fit(fold, best, seed, setting.device, partial(report, len(tried)))
    return {
        "numbers": measures(made.response, fold.panel.response, fold.test, fold.offset),
        "parameters": made.parameters,
        "notes": [json.dumps({"setting": best, "inner_rmse": errors})],
        "seconds": time.process_time() - began,
    }
