"""Are the weights the same each time? The same model from other seeds."""

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from ..artifacts import Histogram, add_artifact
from ..finding import Finding
from ..statistics.divergence import LARGEST, jsd, tvd
from ..statistics.intervals import estimate, known, median, stream
from .reading import TrainedReadout
from .retraining import Retraining

TEST = "seed variance"
NOTHING = 0.001  # a difference that is not told more exactly
EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)  # bins of the largest weight


def seed_variance(
    retraining: Retraining, *, attention: str = "additive", seeds: int = 8, base: int = 0, seed: int = 0
) -> list[Finding]:
    """Jensen-Shannon divergence between the weights of a base seed and those of the other seeds, on test instances.

    What training alone changes is the least that an adversary has to exceed before it says anything. Beside it: the
    base's weights in another order, uniform weights, and how far the predictions of the seeds are apart.
    Wiegreffe & Pinter 2019, section 3.3.
    """
    if seeds < 2:
        raise ValueError(f"seed_variance(seeds={seeds}): expected 2 or more, a base and another one.")
    one = retraining.trained(attention, base)
    others = [retraining.trained(attention, s) for s in range(seeds) if s != base]
    far = np.stack([apart(one, other) for other in others])  # (seeds - 1, instances)
    moved = np.stack([said_apart(one, other) for other in others])
    largest = np.asarray([w.max() for w in one.weights["test"]])
    add_artifact(
        Histogram(
            "Weights of other seeds",
            "JSD to the base seed",
            {
                f"largest weight {low:g} to {high:g}": far[:, (largest > low) & (largest <= high)].ravel()
                for low, high in itertools.pairwise(EDGES)
            },
            says="How far apart two seeds look, by how sharp the base seed looks.",
        )
    )
    draw = stream(seed, TEST)
    mixed = TrainedReadout(one.said, {**one.weights, "test": [draw.permutation(w) for w in one.weights["test"]]})
    value = estimate(far, median, seeds=True, scale=(0.0, LARGEST), seed=seed)
    prediction = estimate(moved, median, seeds=True, scale=(0.0, 1.0), seed=seed)
    return [
        Finding.of(
            value,
            name="weights of another seed",
            better="lower",
            test=TEST,
            unit="JSD (max 0.69)",
            says=f"Trained from another seed, the weights of half of the instances or more {_differ(value.value)}.",
            baselines={
                "base in another order": known(apart(one, mixed), median),
                "uniform": known(apart(one, even(one)), median),
                "largest possible": LARGEST,
            },
        ),
        Finding.of(
            prediction,
            name="prediction of another seed",
            better="lower",
            test=TEST,
            unit="total variation (max 1)",
            baselines={"no change": 0.0},
            says=f"Between two seeds half of the predictions or more {_differ(prediction.value)}.",
        ),
    ]


def _differ(value: float | None) -> str:
    if value is None:
        return "differ by an undefined amount"
    if value < NOTHING:
        return "do not differ" if value == 0 else f"differ by less than {NOTHING}"
    return f"differ by {value:.2g} or more"


def apart(one: TrainedReadout, two: TrainedReadout, part: str = "test") -> np.ndarray:
    """(instances,): Jensen-Shannon divergence of the weights."""
    return jsd(_rows(one.weights[part]), _rows(two.weights[part])).numpy()


def said_apart(one: TrainedReadout, two: TrainedReadout, part: str = "test") -> np.ndarray:
    """(instances,): total variation of the predictions."""
    return tvd(torch.as_tensor(one.said[part]), torch.as_tensor(two.said[part])).numpy()


def even(one: TrainedReadout) -> TrainedReadout:
    """The same with uniform weights."""
    weights = {part: [np.full(len(w), 1 / len(w)) for w in some] for part, some in one.weights.items()}
    return TrainedReadout(one.said, weights)


def _rows(weights: Sequence[np.ndarray]) -> torch.Tensor:
    rows = pad_sequence([torch.as_tensor(w, dtype=torch.float64) for w in weights], batch_first=True)
    return rows / rows.sum(-1, keepdim=True)
