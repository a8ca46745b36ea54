"""Is attention needed at all? The same model, trained with the same weight for every unit."""

from dataclasses import replace

import numpy as np

from ..finding import Finding
from ..statistics.comparison import compare
from ..wording import amount
from .retraining import Retraining
from .scoring import MEASURES, of, table

TEST = "uniform retraining"


def uniform_retraining(
    retraining: Retraining, *, attention: str = "additive", seeds: int = 8, seed: int = 0
) -> list[Finding]:
    """F1 and accuracy of the model beside those of the same model trained with uniform weights, over seeds.

    Where nothing is lost, attention is not needed on these data, and no test of its weights can say that it is the
    reason for anything. Intervals cross seeds and instances. Wiegreffe & Pinter 2019, section 3.2.
    """
    own = [retraining.trained(attention, one) for one in range(seeds)]
    even = [retraining.trained("uniform", one) for one in range(seeds)]
    rows = table(retraining.labels, own, even)
    made = []
    for name, measure in MEASURES.items():
        usual = np.broadcast_to(
            np.stack([retraining.labels, np.full(len(rows[0]), _most(retraining))], -1), (seeds, len(rows[0]), 2)
        )
        for model, who in ((0, attention), (1, "uniform")):
            other = "uniform weights" if model == 0 else f"{attention} weights"
            beside = {"most frequent class": usual, other: rows[..., [0, 2 - model]]}
            found = compare(rows[..., [0, 1 + model]], beside, of(measure), seeds=True, seed=seed)
            made.append(
                Finding.of(
                    found,
                    name=f"{name}, {who} weights",
                    better="higher",
                    test=TEST,
                    unit=name,
                    says=f"Trained with {who} weights, the {name} is {found.value:.3f}, mean of {seeds} seeds.",
                )
            )
        lost = compare(rows, {"no difference": 0.0}, of(measure, 0, 1), seeds=True, seed=seed)
        assert lost.value is not None
        one = Finding.of(lost, name=f"{name} lost by uniform weights", says=".", better="higher", test=TEST, unit=name)
        made.append(replace(one, says=_loss(one, lost.value, seeds)))
    return made


def _loss(one: Finding, lost: float, seeds: int) -> str:
    """The sentence that follows from the verdict."""
    how, few = one.standing[1], f"{seeds} seed{'s' * (seeds != 1)}"
    seen = {
        "better": "attention is of use on these data.",
        "worse": "attention is a hindrance on these data.",
        "not significantly different": f"with {few} attention is not seen to be needed on these data.",
        "undefined": f"with {few} whether attention is needed cannot be said.",
    }[how]
    if lost == 0:
        return f"A model that learns with uniform weights loses nothing: {seen}"
    return f"A model that learns with uniform weights {'loses' if lost > 0 else 'gains'} {amount(abs(lost))}: {seen}"


def _most(retraining: Retraining) -> int:
    targets = [int(one.target) for one in retraining.task.train]
    return max(set(targets), key=targets.count)
