"""Do the tests distinguish models whose weights are a reason from models whose weights are not?"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.judging.finding import Finding
from regard.judging.judge import judge
from regard.judging.report import Report
from regard.judging.statistics.intervals import stream
from regard.judging.validity import ANSWER
from regard.judging.verdict import KNOW_NOTHING, standing

from .built import BuiltModel, built_models

TESTS = "ablation,correlation,permutation,adversary,faithfulness,removals,infidelity,rationales"
MEASURES = (
    "comprehensiveness of attention",
    "sufficiency of attention",
    "units to flip the decision of attention",
    "decision flipped by the first unit of attention",
    "tau of attention and gradient",
    "significant agreement of attention and gradient",
    "tau of attention and leave one out",
    "significant agreement of attention and leave one out",
    "infidelity of attention",
    "comprehensiveness of attention by mask",
    "permuted weights",
    "uniform weights: change of the output",
    "uniform weights: accuracy lost",
    "value of the top unit silent",
    "adversarial attention, median",
    "adversarial attention, share of what is possible",
    "average precision",
)
PLAUSIBILITY = ("average precision",)  # what people would call the reason, which a mere decoration may be on
COUNT = 40  # instances of each model


@dataclass(frozen=True)
class JudgeQuality:
    """How well a measure distinguishes the models.

    auroc     how often a model whose weights are a reason scores above one whose weights are not; ties count half
    interval  of it, 95 %, by resampling the models of each kind
    power     the share of the models with a reason that are "better" than the baseline; None without a verdict
    false_positives   the share of the models without a reason that are
    models    how many it was measured on; one on which it is undefined counts as the lowest score
    """

    measure: str
    auroc: float
    interval: tuple[float, float]
    power: float | None
    false_positives: float | None
    models: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class JudgedModel:
    """One judged model: by measure the score and the verdict, and the answer of the report."""

    model: BuiltModel
    scores: dict[str, float]
    verdicts: dict[str, str]
    answer: str


def judged_models(
    count: int = COUNT,
    seed: int = 0,
    models: Sequence[BuiltModel] | None = None,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> list[JudgedModel]:
    """Every model, through every test of whether its weights are a reason."""
    some = built_models() if models is None else list(models)
    made = []
    for place, model in enumerate(some):
        if on_progress is not None:
            on_progress(place, len(some), model.name)
        made.append(_judged(model, judge(model.adapter(count), tests=TESTS, seed=seed)))
    return made


def qualities(judged: Sequence[JudgedModel], seed: int = 0) -> list[JudgeQuality]:
    """Each measure over the models on which it has a finding, the best first."""
    truth = {one.model.name: one.model.faithful for one in judged}
    made = []
    for measure in (ANSWER, *MEASURES):
        some = [one for one in judged if measure in one.scores]
        if not some:
            continue
        scores = np.array([one.scores[measure] for one in some])
        reasons = np.array([truth[one.model.name] for one in some])
        if reasons.all() or not reasons.any():
            continue
        verdicts = [one.verdicts[measure] for one in some]
        decided = set(verdicts) - {"undefined"}
        better = np.array([verdict == "better" for verdict in verdicts])
        made.append(
            JudgeQuality(
                measure,
                area(scores[reasons], scores[~reasons]),
                _interval(scores[reasons], scores[~reasons], seed),
                float(better[reasons].mean()) if decided else None,
                float(better[~reasons].mean()) if decided else None,
                len(some),
            )
        )
    return sorted(made, key=lambda one: -one.auroc)


def area(reasons: np.ndarray, others: np.ndarray) -> float:
    """The area under the ROC curve of scores: P(reason > other) + P(equal) / 2."""
    one, other = reasons[:, None], others[None, :]
    return float((one > other).mean() + (one == other).mean() / 2)


def score(finding: Finding) -> float:
    """How far a finding is on the better side of the baseline that decides, where that one knows nothing of the model;
    else its value, in the direction that is better. Undefined: below every number."""
    name, _ = standing(finding)
    far = finding.value
    if name in (*KNOW_NOTHING, "random unit") and name in finding.differences:
        far = finding.differences[name].value
    if far is None or not math.isfinite(far):
        return -math.inf
    return -far if finding.better == "lower" else far


def _judged(model: BuiltModel, report: Report) -> JudgedModel:
    found = {one.name: one for one in report.findings}
    scores = {name: score(found[name]) for name in MEASURES if name in found}
    verdicts: dict[str, str] = {name: standing(found[name])[1] for name in MEASURES if name in found}
    held = report.summary.held
    scores[ANSWER] = -math.inf if held is None else held
    verdicts[ANSWER] = "better" if held == 1 else "not significantly different"
    return JudgedModel(model, scores, verdicts, report.summary.answer)


def _interval(reasons: np.ndarray, others: np.ndarray, seed: int, times: int = 2000) -> tuple[float, float]:
    draw = stream(seed, "models")
    found = [
        area(
            reasons[draw.integers(len(reasons), size=len(reasons))],
            others[draw.integers(len(others), size=len(others))],
        )
        for _ in range(times)
    ]
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)
