"""Is attention needed at all? The same model, trained with the same weight for every unit."""

import numpy as np

from ..finding import Finding
from ..statistics.intervals import estimate, known
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
        usual = measure(np.full(len(rows[0]), _most(retraining)), retraining.labels)
        for model, who in ((0, attention), (1, "uniform")):
            found = estimate(rows, of(measure, model), seeds=True, seed=seed)
            made.append(
                Finding.of(
                    found,
                    name=f"{name}, {who} weights",
                    better="higher",
                    test=TEST,
                    unit=name,
                    says=f"Trained with {who} weights, the {name} is {found.value:.3f}, mean of {seeds} seeds.",
                    baselines={
                        "most frequent class": usual,
                        ("uniform weights" if model == 0 else f"{attention} weights"): known(
                            np.asarray([of(measure, 1 - model)(one) for one in rows])
                        ),
                    },
                )
            )
        lost = estimate(rows, of(measure, 0, 1), seeds=True, seed=seed)
        assert lost.value is not None
        needed = lost.interval is not None and lost.interval[0] > 0
        made.append(
            Finding.of(
                lost,
                name=f"{name} lost by uniform weights",
                better="higher",
                test=TEST,
                unit=name,
                baselines={"no difference": 0.0},
                says=f"A model that learns with uniform weights loses {lost.value:.3f}: "
                + (
                    "attention is of use on these data."
                    if needed
                    else "attention is not seen to be needed on these data."
                ),
            )
        )
    return made


def _most(retraining: Retraining) -> int:
    targets = [int(one.target) for one in retraining.task.train]
    return max(set(targets), key=targets.count)
