"""How well does the model do its task? One call by task, through the libraries that the field measures with."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..finding import Finding
from ..statistics.comparison import compare
from ..statistics.intervals import stream
from ..wording import three_digits
from .images import images, regions
from .labels import answers_at_random, classification, commonest, regression
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
CONSTANT = "commonest class"
RANDOM, DRAWS = "random answer", 20  # which has the shares of the classes


def extrinsic(
    task: str,
    said: Any,
    wanted: Any = None,
    *,
    baselines: Mapping[str, Any] | None = None,
    seed: int = 0,
    resamples: int = 2000,
    **options: Any,
) -> list[Finding]:
    """Findings about what a model said, beside what was wanted.

    task       translation: BLEU, METEOR. language: perplexity. speech: word error rate. phones: phone error rate.
               images: PSNR, SSIM. regions: IoU. classification: accuracy, precision, recall, F1, AUC.
               regression: RMSE, Pearson
    baselines  by name, what something else said to the same instances; the last of them decides over better and worse.
               "random answer", which deals out the labels that are wanted, and "commonest class" (classification) and
               "mean" (regression) are added, taken from `wanted` itself: the strongest of their kind. A figure that
               averages over classes has no commonest class beside it, which it punishes for the others
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
    beside = _baselines(task, wanted, dict(baselines or {}), options, seed)
    found = []
    for one in measures:
        tables = {name: tables[one.name] for name, tables in beside.items() if one.name in tables}
        if one.strata is not None:
            tables.pop(CONSTANT, None)
        tested = dict(reversed(tables.items()))  # the first that is compared decides
        result = compare(
            one.table, tested, one.statistic, scale=one.scale, strata=one.strata, seed=seed, resamples=resamples
        )
        if result.value is not None:
            told = one.says.format(three_digits(result.value))
        elif not len(said):
            told = f"{one.name} is undefined here: there is no instance."
        else:
            told = f"{one.name} is undefined here: {WHY.get(task, 'there is nothing to compare')}."
        found.append(Finding.of(result, name=one.name, says=told, better=one.better, test="extrinsic", unit=one.unit))
    return found


def _baselines(
    task: str, wanted: Any, given: Mapping[str, Any], options: Mapping[str, Any], seed: int
) -> dict[str, dict[str, np.ndarray]]:
    """By baseline and measure its table; of the random answer (draws, ...)."""
    same = {key: value for key, value in options.items() if key != "scores"}
    if task == "classification" and same.get("positive") not in {*wanted, *(same.get("classes") or ())}:
        same.pop("positive", None)  # a class that is only said has no figure of a baseline
    made: dict[str, dict[str, np.ndarray]] = {}
    if task == "classification" and len(wanted):
        draw = stream(seed, RANDOM)
        drawn = []
        for _ in range(DRAWS):
            order = draw.permutation(len(wanted))
            mixed: dict[str, Any] = (
                {"scores": np.asarray(options["scores"])[order]} if options.get("scores") is not None else {}
            )
            drawn.append(classification(answers_at_random(wanted, draw), wanted, **same, **mixed))
        made[RANDOM] = {some[0].name: np.stack([one.table for one in some]) for some in zip(*drawn, strict=True)}
    for name, theirs in {**_trivial(task, wanted), **given}.items():
        made[name] = {one.name: one.table for one in TASKS[task](theirs, wanted, **same)}
    return made


def _trivial(task: str, wanted: Any) -> dict[str, Any]:
    if task == "classification":
        return {CONSTANT: commonest(wanted)}
    if task == "regression":
        numbers = np.asarray(wanted, dtype=np.float64)
        return {"mean": np.full_like(numbers, numbers.mean())} if numbers.size else {}
    return {}
