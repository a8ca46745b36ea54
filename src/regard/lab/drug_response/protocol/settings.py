"""The two settings of the comparison: small, for two cores, and full, for a GPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..models.attention_variants import ABLATIONS, PLACES
from ..models.candidates import BASELINES, NETWORKS
from .splits import FOLDS, SPLITS

if TYPE_CHECKING:
    from regard.studies import Study

SOME = ("mlp", "gat", "cross")


@dataclass(frozen=True)
class ResponseSetting:
    """The models of each split, the number of seeds (folds), and the tuning budget."""

    small: bool
    seeds: int
    trials: int
    variants: Mapping[str, tuple[str, ...]]
    device: str = "cpu"

    def study(self, split: str) -> "Study":
        """The study of one split: what `regard study` runs, resumes and reports."""
        from regard.studies import Study

        return Study.model_validate(
            {
                "name": f"response-{split}",
                "tasks": [
                    {
                        "task": "response",
                        "name": SPLITS[split],
                        "small": self.small,
                        "options": {"held_out": split, "trials": self.trials},
                    }
                ],
                "variants": list(self.variants[split]),
                "baseline": "boosting",
                "seeds": self.seeds,
                "device": self.device,
            }
        )


def _ablated(*places: str) -> tuple[str, ...]:
    return tuple(f"{place}/{ablation}" for place in places for ablation in ABLATIONS)


SMALL = ResponseSetting(
    small=True,
    seeds=FOLDS,
    trials=2,
    variants={
        "cells": (*BASELINES, *PLACES, *_ablated("gat", "cross", "kinds"), "proteins/uniform"),
        "drugs": (*BASELINES, "mlp", "gcn", "gat", "edge", "cross"),
        "tissues": (*BASELINES, *SOME),
        "scaffolds": (*BASELINES, *SOME),
        "pairs": (*BASELINES, *SOME),
    },
)
FULL = ResponseSetting(
    small=False, seeds=2 * FOLDS, trials=16, variants=dict.fromkeys(SPLITS, (*BASELINES, *NETWORKS)), device="cuda"
)
