"""A model, not a set of numbers, that says the same and looks elsewhere."""

from collections.abc import Sequence

import numpy as np

from ..artifacts import Plot, Series, add_artifact
from ..finding import Finding
from ..statistics.divergence import LARGEST
from ..statistics.intervals import estimate, known
from ..wording import amount
from .retraining import Retraining
from .scoring import f1, of, table
from .seeds import apart, even, said_apart

TEST = "trained adversary"
STRENGTHS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)


def trained_adversary(
    retraining: Retraining,
    *,
    attention: str = "additive",
    strengths: Sequence[float] = STRENGTHS,
    base: int = 0,
    others: int = 1,
    seed: int = 0,
) -> list[Finding]:
    """How different the weights of a whole model can be that was trained to predict as the base does.

        L = TVD(y_a, y_b) - strength KL(a_a || a_b)

    over strengths, one set of parameters for all instances. The curve of TVD against JSD has beside it what other seeds
    of the model itself (`others` of them) and uniform weights reach: an adversary below them says little.
    Wiegreffe & Pinter 2019, section 4.
    """
    one = retraining.trained(attention, base)
    seeds = [retraining.trained(attention, base + 1 + more) for more in range(others)]
    sought = [retraining.adversary(one, strength, base, attention) for strength in strengths]
    far, moved = (np.stack([measure(one, each) for each in sought]) for measure in (apart, said_apart))
    plain = retraining.trained("uniform", base)
    marks = [
        ("other seeds", [said_apart(one, each).mean() for each in seeds], [apart(one, each).mean() for each in seeds]),
        ("uniform", [said_apart(one, plain).mean()], [apart(one, even(one)).mean()]),
    ]
    add_artifact(
        Plot(
            "A trained adversary",
            "TVD of predictions, mean",
            "JSD of weights, mean",
            [
                Series("adversary", moved.mean(1), far.mean(1)),
                *(Series(name, x, y, line=False) for name, x, y in marks),
            ],
            says="Up and to the left: other weights, the same prediction.",
        )
    )
    beside = {name: known(np.asarray(y)) for name, _, y in marks if y}
    beside_moved = {name: known(np.asarray(x)) for name, x, _ in marks if x}
    rows = table(retraining.labels, [one], *([each] for each in sought))
    made = []
    for place, strength in enumerate(strengths):
        value = estimate(far[place], scale=(0.0, LARGEST), seed=seed)
        shift = estimate(moved[place], scale=(0.0, 1.0), seed=seed)
        score = estimate(rows, of(f1, 1 + place), seeds=True, seed=seed)
        name = f"trained adversary at {strength:g}"
        made += [
            Finding.of(
                value,
                name=f"{name}, weights",
                better="lower",
                test=TEST,
                unit="JSD (max 0.69)",
                baselines=beside,
                says=f"Its weights differ from the base's by {amount(value.value)} on average, "
                f"while its predictions {'do not move' if shift.value == 0 else f'move by {amount(shift.value)}'}.",
            ),
            Finding.of(
                shift,
                name=f"{name}, predictions",
                better="higher",
                test=TEST,
                unit="total variation (max 1)",
                baselines=beside_moved,
                says=f"Its predictions differ from the base's by {amount(shift.value)} on average.",
            ),
            Finding.of(
                score,
                name=f"{name}, F1",
                better="lower",
                test=TEST,
                unit="F1",
                baselines={"base": of(f1, 0)(rows[0])},
                says=f"Its F1 is {score.value:.3f}.",
            ),
        ]
    return made
