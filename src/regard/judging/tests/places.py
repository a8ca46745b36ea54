"""Do the weights depend on the text, or only on the position of a unit?"""

import numpy as np
import torch

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs, NotApplicable
from ..adapters.place_profile import relative_weights
from ..artifacts import Caution, Plot, Series, add_artifact
from ..finding import Finding
from ..registry import asks
from ..statistics.intervals import estimate, known, stream
from ..wording import percent, sentence

TEST = "places"
MOST = 0.5  # a share of the variation that a report warns of


@asks("Do the weights depend on the text, or only on the position of a unit?", aspect="trap")
def places(adapter: Adapter, *, seed: int = 0) -> list[Finding]:
    """The share of the variation of the weights that the position of a unit predicts.

        1 - sum (r_ij - p_ij)^2 / sum (r_ij - 1)^2,   r_ij = n_i w_ij

    w are the weights over the n_i units of instance i, p what the other instances have at the same place, counted from
    both ends (`PlaceProfile`). 1: the weights of a text follow from those of other texts, whatever its words are; 0 or
    below: they do not. The same weights, moved to other units of their text, stand beside it. Weights that follow the
    place alone may still agree with gradients or people, who look at the ends of a text too: so weights by place are a
    baseline of the other tests.
    """
    if not adapter.selector.tokens:
        raise NotApplicable("Units of this model are edges, which have no position in a text.")
    draw = stream(seed, "places")
    parts = adapter.each(lambda inputs: _squares(adapter, inputs))
    moved = [_shuffled(one, draw) for one in parts]
    found = [np.array([[_residual(r, p), float(((r - 1) ** 2).sum())] for r, p in some]) for some in (parts, moved)]
    _show(adapter)
    value = estimate(found[0], _share, seed=seed)
    beside = known(found[1], _share)
    says = (
        "undefined: the weights of every instance are uniform."
        if value.value is None
        else sentence(
            f"{percent(max(value.value, 0.0))} of the variation of the weights within a text is predicted by the "
            "position of its units, from the weights of other texts."
        )
    )
    if value.value is not None and value.value >= MOST:
        add_artifact(Caution("Position", says))
    return [
        Finding.of(
            value,
            name="weights predicted by position",
            better="neither",
            test=TEST,
            unit="share of their variation",
            says=says,
            baselines={"permuted weights": beside},
        )
    ]


def _squares(adapter: Adapter, inputs: Inputs) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each item its relative weights, and those expected by place; (units,) each."""
    weights = adapter.attention(inputs)
    expected = adapter.place_profile.expected(weights, inputs).cpu()
    own = relative_weights(weights, inputs)
    units = inputs.units.cpu()
    return [(r.numpy(), expected[item][units[item]].numpy()) for item, r in enumerate(own)]


def _shuffled(pair: tuple[np.ndarray, np.ndarray], draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return draw.permutation(pair[0]), pair[1]


def _residual(r: np.ndarray, p: np.ndarray) -> float:
    return float(((r - p) ** 2).sum())


def _share(squares: np.ndarray) -> float:
    """1 - residual / total of (instances, 2); NaN where nothing varies."""
    left, total = squares.sum(0)
    return float(1 - left / total) if total > 1e-12 * max(len(squares), 1) else float("nan")


def _show(adapter: Adapter) -> None:
    profile = adapter.place_profile
    some = profile.count > 0
    count = profile.count[some]
    place = torch.arange(1, len(count) + 1).double()
    add_artifact(
        Plot(
            "Weight by position",
            "position of the unit in its text, from the start or from the end",
            "weight times the number of units, mean of the texts",
            [
                Series("from the start", place, profile.from_start[some] / count),
                Series("from the end", place, profile.from_end[some] / count),
                Series("uniform", place, torch.ones_like(place)),
            ],
            "A curve far from 1: the position of a word decides how much weight it gets.",
        )
    )
