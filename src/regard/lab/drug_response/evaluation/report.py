"""What the comparison found: tables, paired tests, and a verdict for each split in one sentence."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from regard.core.plural import count_of
from regard.judging.finding import Finding
from regard.studies.report import Sheet
from regard.studies.results import Results

from ..models.attention_variants import ABLATIONS, ATTENTION, PLACES
from ..models.candidates import BASELINES, model_of
from ..protocol.splits import FOLDS, SPLITS
from .metrics import MEASURES
from .paired_tests import FEWEST, Paired, compare, corrected_interval, smallest_visible

HEADS = ("Pearson in a drug", "in a line", "Pearson", "% explained", "ranking", "% top ten")  # of `MEASURES`
TREES = ("forest", "boosting")
ASKED = {
    "pairs": "a pair of drug and cell line that was not measured, when both are known from others",
    "cells": "a cell line that no model has seen",
    "tissues": "a tissue that no model has seen",
    "drugs": "a drug that no model has seen",
    "scaffolds": "a drug of a chemical family that no model has seen",
}


@dataclass
class SplitReport:
    """One split: results over folds, and paired tests of RMSE.

    against    each network beside the mean effects, the best trees and the ridge: one family of tests
    ablations  each place of attention beside itself with uniform, frozen and permuted weights: another
    """

    split: str
    results: Results
    trees: str
    against: list[Paired] = field(default_factory=list)
    ablations: list[Paired] = field(default_factory=list)

    @classmethod
    def of(cls, split: str, results: Results) -> "SplitReport":
        values = {one: results.values(SPLITS[split], one, "rmse") for one in results.variants}
        values = {name: found for name, found in values.items() if found}
        folds = {name: len(found) for name, found in values.items()}
        enough = {name for name in values if folds[name] >= FEWEST} or set(values)
        trees = min((t for t in TREES if t in enough), key=lambda t: np.mean(list(values[t].values())), default="")
        beside = [name for name in ("means", trees, "ridge") if name in values]
        networks = [name for name in PLACES if folds.get(name, 0) >= FEWEST]
        ablated = [
            (place, f"{place}/{each}")
            for place in ATTENTION
            for each in ABLATIONS
            if folds.get(f"{place}/{each}", 0) >= FEWEST
        ]
        return cls(
            split,
            results,
            trees,
            compare(values, [(network, one) for network in networks for one in beside]),
            compare(values, ablated),
        )

    def folds(self, variant: str, metric: str = "rmse") -> list[float]:
        return list(self.results.values(SPLITS[self.split], variant, metric).values())

    def mean(self, variant: str, metric: str = "rmse") -> float:
        return float(np.mean(self.folds(variant, metric)))

    @property
    def models(self) -> list[str]:
        """The models with a result, in the order of the table."""
        return [name for name in self.results.variants if self.folds(name)]

    @property
    def attending(self) -> list[str]:
        """Networks with attention that have enough folds for a test."""
        return [name for name in ATTENTION if len(self.folds(name)) >= FEWEST]

    def verdicts(self, reference: str) -> dict[str, str]:
        """By network with attention, its verdict beside a reference."""
        return {one.model: one.verdict for one in self.against if one.reference == reference and one.model in ATTENTION}

    def says(self) -> str:
        """The verdict in one sentence, for a biologist."""
        attending = self.attending
        if not attending or not self.against:
            return f"For {ASKED[self.split]}: too few folds are done for a verdict."
        best = min(attending, key=self.mean)
        rivals = [name for name in self.models if name in BASELINES and len(self.folds(name)) >= FEWEST]
        rival = min(rivals, key=self.mean)
        gain, rest = (100 * self.mean(name, "explained") for name in (best, rival))
        said = {one: list(self.verdicts(one).values()) for one in ("means", self.trees, "ridge")}
        folds = min(one.folds for one in self.against)
        return (
            f"For {ASKED[self.split]}, {self.answer(best)}: the best of {count_of(len(attending), 'network')} with it "
            f"({brief(best)}) explains {round(gain)}% of what the mean effects leave, the best model without a "
            f"network ({brief(rival)}) {round(rest)}%. Over {folds} folds, corrected, "
            f"{said['means'].count('better')} of {len(said['means'])} are better than the mean effects, "
            f"{said[self.trees].count('better')} better and {said[self.trees].count('worse')} worse than the best "
            f"trees, {said['ridge'].count('better')} better and {said['ridge'].count('worse')} worse than one ridge "
            "regression per drug."
        )

    def answer(self, best: str) -> str:
        """What the tests of the best network with attention support, beside the trees and the ridge."""
        verdicts = [self.verdicts(one).get(best) for one in (self.trees, "ridge")]
        if all(one == "better" for one in verdicts):
            return "attention adds something"
        if "worse" in verdicts:
            return "attention is not what is needed"
        return "no gain by attention is shown"

    def says_of_ablations(self) -> str:
        """What the attention of the networks is worth, in one sentence; "" where nothing was ablated."""
        if not self.ablations:
            return ""
        helps = [one for one in self.ablations if one.verdict == "better"]
        which = ", ".join(one.reference for one in helps)
        seen = np.median([one.visible for one in self.ablations])
        return (
            f"Of {count_of(len(self.ablations), 'ablation')} {len(helps)} {'is' if len(helps) == 1 else 'are'} "
            f"significantly worse than the learned weights{f' ({which})' if which else ''}; a difference of "
            f"{seen:.3f} in RMSE would be found with power .8 (the median over ablations)."
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "split": self.split,
            "says": self.says(),
            "ablations_say": self.says_of_ablations(),
            "trees": self.trees,
            "models": {
                name: {metric: self.folds(name, metric) for metric in MEASURES if self.folds(name, metric)}
                for name in self.models
            },
            "against": [_finite(asdict(one) | {"verdict": one.verdict}) for one in self.against],
            "ablations": [_finite(asdict(one) | {"verdict": one.verdict}) for one in self.ablations],
        }


def brief(name: str) -> str:
    """What a model is, without the explanation in brackets: a label beside an axis, or within a sentence."""
    return re.sub(r" \(.*?\)|, no attention", "", model_of(name).says)


def power_sentence(folds: int, comparisons: int) -> str:
    """What can be seen, said before anything is run."""
    deviations = smallest_visible(folds, comparisons)
    seen = ", ".join(f"{deviations * spread:.3f} where the spread is {spread:.2f}" for spread in (0.01, 0.02))
    return (
        f"{count_of(folds, 'fold')} ({FOLDS} a division), {count_of(comparisons, 'comparison')} in a family: the "
        f"corrected test finds a difference of {deviations:.1f} standard deviations over folds with power "
        f".8 (in RMSE {seen})."
    )


def measure_sheet(found: SplitReport) -> Sheet:
    """Every model with every measure; RMSE with its interval over folds."""
    rows = []
    for name in found.models:
        ends = corrected_interval(found.folds(name))
        half = f" ± {(ends[1] - ends[0]) / 2:.3f}" if ends else ""
        cells = [f"{found.mean(name):.3f}{half}"]
        for metric, measure in list(MEASURES.items())[1:]:
            values = found.folds(name, metric)
            cells.append(f"{measure.scale * float(np.mean(values)):.{measure.digits}f}" if values else "")
        task = SPLITS[found.split]
        count = found.results.parameters.get(task, {}).get(name)
        seconds = found.results.seconds.get(task, {}).get(name)
        cells += [f"{count:,}" if count else "", f"{seconds:.0f}" if seconds is not None else ""]
        rows.append((f"{model_of(name).says}", str(len(found.folds(name))), *cells))
    columns = ("model", "folds", "RMSE", *HEADS, "parameters", "CPU s")
    ruled = [
        at
        for at, name in enumerate(found.models)
        if name in ("mlp", "gat") or ("/" in name and "/" not in found.models[at - 1])
    ]
    return Sheet(SPLITS[found.split], columns, tuple(rows), ruled=tuple(ruled))


def paired_sheet(title: str, several: Sequence[Paired]) -> Sheet:
    """Differences in RMSE with interval, corrected p, what could be seen, and the verdict."""
    rows = []
    for one in several:
        ends = "" if one.interval is None else f"{one.interval[0]:+.3f} to {one.interval[1]:+.3f}"
        cells = (f"{one.difference:+.3f}", ends, f"{one.adjusted:.2g}", f"{one.visible:.3f}", one.verdict)
        rows.append((one.model, one.reference, *cells))
    return Sheet(
        title, ("model", "beside", "difference", "interval", "p, corrected", "visible", "verdict"), tuple(rows), 2
    )


def reason_sheet(findings: Sequence[Finding]) -> Sheet:
    """Areas under the curve of each source of importance, and cross-attention minus it."""
    rows = []
    for one in findings:
        ends = "" if one.interval is None else f"[{one.interval[0]:.3f}, {one.interval[1]:.3f}]"
        rows.append((one.name, "cross-attention", f"{one.value or 0:.3f}", ends, "", ""))
        for name, value in one.baselines.items():
            difference = one.differences[name]
            ends = (
                "" if difference.interval is None else f"{difference.interval[0]:+.3f} to {difference.interval[1]:+.3f}"
            )
            p = "" if difference.p is None else f"{difference.p:.2g}"
            rows.append(("", name, f"{value or 0:.3f}", "", ends, p))
    columns = ("", "importance by", "AUC", "interval", "attention minus it", "p")
    return Sheet("Known targets among the genes, by importance", columns, tuple(rows), 2)


def _finite(plain: dict[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in plain.items()
    }
