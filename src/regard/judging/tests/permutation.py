"""The same weights on other units: does the prediction change?"""

import itertools
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from regard.recording.interventions.interventions import Here
from regard.recording.interventions.weight_ops import permuted, seeded

from ..adapters.adapter import Adapter
from ..adapters.attention_selector import AmongUnits, AttentionSelector
from ..adapters.inputs import Inputs
from ..adapters.prefix_cache import remembered
from ..adapters.trace_replay import replayed
from ..artifacts import Plot, Series, add_artifact
from ..finding import Finding
from ..registry import asks
from ..statistics.divergence import over_units, tvd
from ..statistics.intervals import estimate, known, median
from ..wording import moves

TEST = "permutation"
NOTHING = 0.001  # a movement that is not told more exactly
EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)  # bins of the largest weight


class Shuffled(AmongUnits):
    """The weights of the units, each on another unit; keys are the whole numbers that decide where, () by site."""

    def __init__(
        self,
        selector: AttentionSelector,
        inputs: Inputs,
        keys: Mapping[str, Tensor],
        kept: dict[str, Tensor] | None = None,
    ):
        super().__init__(selector, inputs, kept)
        self.keys = keys

    def moved(self, weights: Tensor, open_pairs: Tensor, here: Here) -> Tensor:
        return permuted(weights, open_pairs, self.keys[str(here.site)])


class Even(AmongUnits):
    """The weight of the units together, the same on each."""

    def moved(self, weights: Tensor, open_pairs: Tensor, here: Here) -> Tensor:
        return (weights * open_pairs).sum(-1, keepdim=True) / open_pairs.sum(-1, keepdim=True).clamp_min(1)


@asks("Does the prediction change when the weights are permuted?")
def permutation(adapter: Adapter, *, times: int = 100, seed: int = 0) -> list[Finding]:
    """How far the prediction moves when the judged weights change places among the units; what was encoded stays.

    Of each instance the median over `times` orders of the total variation; of these the median, and the means by the
    largest weight that an instance has. If large weights can be moved and nothing changes, they were not the
    reason. The mean over units stands beside it. Jain & Wallace 2019, section 4.2.1.
    """
    found = moved(adapter, times=times, seed=seed)
    add_artifact(
        Plot(
            "Movement of the prediction by the largest weight",
            "largest weight of the instance",
            "total variation (max 1)",
            [
                Series("weights permuted, median", found[:, 1], found[:, 0], line=False),
                Series("weights uniform", found[:, 1], found[:, 2], line=False),
            ],
            "Points at the lower right: one unit has much weight, and moving it changed little.",
        )
    )
    value = estimate(found[:, 0], median, seed=seed)
    made = [
        Finding.of(
            value,
            name="permuted weights",
            better="higher",
            test=TEST,
            unit="total variation (max 1)",
            says="undefined: no instance has a unit."
            if value.value is None
            else "Half of the predictions or more do not move at all when their weights are permuted."
            if value.value == 0
            else "Half of the predictions or more move by less than 0.001 when their weights are permuted."
            if value.value < NOTHING
            else f"Half of the predictions move by {value.value:.2g} or more when their weights are permuted.",
            baselines={"no change": 0.0, "uniform weights": known(found[:, 2], median)},
        )
    ]
    for low, high in itertools.pairwise(EDGES):
        inside = (found[:, 1] > low) & (found[:, 1] <= high)
        some = found[inside]
        if not len(some):
            continue
        value = estimate(some[:, 0], scale=(0.0, 1.0), seed=seed)
        made.append(
            Finding.of(
                value,
                name=f"permuted weights, largest {low:g} to {high:g}",
                better="higher",
                test=TEST,
                unit="total variation (max 1)",
                baselines={"no change": 0.0, "uniform weights": float(some[:, 2].mean())},
                says=f"Where the largest weight is between {low:g} and {high:g}, the prediction "
                f"{moves(value.value or 0.0)}.",
            )
        )
    return made


def moved(adapter: Adapter, *, times: int = 100, seed: int = 0) -> np.ndarray:
    """(instances, 3): median total variation over permutations, the largest weight, total variation by even weights;
    NaN for an instance without units."""
    if times < 1:
        raise ValueError(f"permutation(times={times}): expected 1 or more orders.")
    judged = adapter.judged

    def measure(inputs: Inputs) -> list[list[float]]:
        before = adapter.predict(inputs)
        # of several sites the later ones see what the earlier ones changed
        maps = adapter.maps(inputs)
        kept = {site: adapter.selector.rows_of(maps[site], inputs) for site in judged[:1]}
        largest = over_units(adapter.selector.read(maps, inputs).double(), inputs.units).amax(-1)

        def through(*keys: Tensor) -> list[Tensor]:
            moved = Shuffled(adapter.selector, inputs, dict(zip(judged, keys, strict=True)), kept)
            return [adapter.predict(inputs, dict.fromkeys(judged, moved))]

        orders = [
            [torch.tensor(seeded(one, site.partition(":")[0]), device=before.device) for site in judged]
            for one in (seeded(seed, f"order {time}") for time in range(times))
        ]
        with torch.no_grad(), remembered(adapter.model, judged, lambda: adapter.logits(inputs)):
            run = replayed(through, *orders[0])
            far = torch.stack([tvd(before, run(*keys)[0]) for keys in orders])
            even = tvd(before, adapter.predict(inputs, dict.fromkeys(judged, Even(adapter.selector, inputs))))
        found = torch.stack([far.quantile(0.5, dim=0), largest, even], -1)
        return found.masked_fill(~inputs.units.any(-1, keepdim=True), torch.nan).tolist()

    return np.asarray(adapter.each(measure), dtype=np.float64).reshape(-1, 3)
