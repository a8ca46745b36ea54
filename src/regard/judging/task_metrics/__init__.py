"""How well does the model do its task? One call by task, through the libraries that the field measures with."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..finding import Finding
from ..statistics.intervals import estimate
from .images import images, regions
from .labels import classification, commonest, regression
from .metric import Measured
from .texts import language, log_probabilities, phones, speech, translation

__all__ = ["TASKS", "extrinsic", "log_probabilities"]

TASKS: dict[str, Callable[..., list[Measured]]] = {
    "translation": translation,
    "language": language,
    "speech": speech,
    "phones": phones,
    "images": images,
    "regions": regions,
    "classification": classification,
    "regression": regression,
}

WHY = {
    "classification": "it needs two classes",
    "regression": "it needs numbers that differ, on both sides",
    "regions": "every mask is empty",
    "language": "there is no token",
}


def extrinsic(
    task: str,
    said: Any,
    wanted: Any = None,
    *,
    baselines: Mapping[str, Any] | None = None,
    seed: int = 0,
    resamples: int = 1000,
    **options: Any,
) -> list[Finding]:
    """Findings about what a model said, beside what was wanted.

    task       translation: BLEU, METEOR. language: perplexity. speech: word error rate. phones: phone error rate.
               images: PSNR, SSIM. regions: IoU. classification: accuracy, precision, recall, F1, AUC.
               regression: RMSE, Pearson
    baselines  by name, what something else said to the same instances. "commonest class" (classification) and "mean"
               (regression) are added; they are taken from `wanted` itself, the strongest of their kind
    options    of the task: lower (translation), scores, classes and positive (classification), largest (images)

    A figure that is undefined (one class, a constant, no reference) is told as undefined.
    """
    if task not in TASKS:
        raise ValueError(f"extrinsic({task!r}): expected one of {', '.join(TASKS)}.")
    if wanted is None and task != "language":
        raise ValueError(f"extrinsic({task!r}): wanted is missing: what should have been said?")
    if wanted is not None and len(said) != len(wanted):
        raise ValueError(f"extrinsic({task!r}): {len(said)} instances were said, {len(wanted)} wanted.")
    measures = TASKS[task](said, wanted, **options)
    beside: dict[str, dict[str, float | None]] = {}
    for name, theirs in {**_trivial(task, wanted), **dict(baselines or {})}.items():
        same = {key: value for key, value in options.items() if key not in ("scores", "positive")}
        beside[name] = {
            one.name: estimate(one.table, one.statistic, resamples=1).value
            for one in TASKS[task](theirs, wanted, **same)
        }
    found = []
    for one in measures:
        result = estimate(one.table, one.statistic, seed=seed, resamples=resamples)
        told = (
            f"{one.name} is undefined here: {WHY.get(task, 'there is nothing to compare')}."
            if result.value is None
            else one.says.format(f"{result.value:.3g}")
        )
        baseline = {name: values[one.name] for name, values in beside.items() if one.name in values}
        found.append(
            Finding.of(
                result, name=one.name, says=told, better=one.better, test="extrinsic", unit=one.unit, baselines=baseline
            )
        )
    return found


def _trivial(task: str, wanted: Any) -> dict[str, Any]:
    if task == "classification":
        return {"commonest class": commonest(wanted)}
    if task == "regression":
        numbers = np.asarray(wanted, dtype=np.float64)
        return {"mean": np.full_like(numbers, numbers.mean())} if numbers.size else {}
    return {}
