"""Infidelity: does an attribution predict how the output changes when some of the units are removed?"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs
from ..attribution.importance import Importance, importances, uniform
from ..finding import Finding
from ..registry import asks
from ..statistics.comparison import compare
from ..wording import percent, sentence
from .faithfulness import predict_each

TEST = "infidelity"
TIMES = 32  # sets of units that are taken away of each text
DRAWS = 10  # random importances beside each figure
ROUNDING = 1e-5  # a change of the log-odds that numbers of single precision make by themselves


@asks("Which attribution predicts the effect of removing units?")
def infidelity(
    adapter: Adapter, names: Sequence[str] | None = None, *, times: int = TIMES, seed: int = 0
) -> list[Finding]:
    """The share of the change of the output that an importance does not predict, of every importance.

        E (b s - c)^2 / E c^2,    s = sum of the importance of the units that are gone, c = F(text) - F(without them)

    over `times` random sets of 1 to n / 2 units; F is the log-odds of the predicted class, and b the scale of 0 or more
    with which the error is least: importances have no common unit, but one that has its sign wrong is not put right by
    a scale below 0. 0: the sum of importances is the change; 1: nothing is predicted. The even importance, which knows
    how many units are gone, and the same numbers on other units stand beside it: random numbers of another spread
    would predict more, or less, by that alone. An importance without signs cannot predict a unit that
    speaks against the prediction. Undefined for a text whose output never changes. Yeh et al. 2019 (their infidelity,
    with the optimal scale, over E c^2).
    """
    measures, _ = importances(adapter, names)
    found = unpredicted(adapter, {**measures, "uniform": uniform}, times=times, seed=seed, draws=DRAWS)
    even = found.pop("uniform")[0]
    made = []
    for name, values in found.items():
        value = compare(values[0], {"random": values[1:], "uniform": even}, scale=(0.0, 1.0), seed=seed)
        made.append(
            Finding.of(
                value,
                name=f"infidelity of {name}",
                better="lower",
                test=TEST,
                unit="share of the change",
                says="undefined: the output of no instance changes when units are removed."
                if value.value is None
                else sentence(
                    f"{percent(value.value)} of the change of the log-odds when units are removed is not predicted by "
                    f"{name}."
                ),
            )
        )
    return made


def unpredicted(
    adapter: Adapter, measures: Mapping[str, Importance], *, times: int = TIMES, seed: int = 0, draws: int = 0
) -> dict[str, np.ndarray]:
    """(1 + draws, instances) by name: the share of the squared change that each measure does not predict, NaN if
    undefined; then the same of its numbers on other units of the instance, so often."""
    if times < 1:
        raise ValueError(f"infidelity(times={times}): expected 1 or more sets of units.")
    draw = torch.Generator().manual_seed(seed)

    def of_batch(inputs: Inputs) -> list[list[float]]:
        gone = subsets(inputs.units, times, draw)  # (times, B, n)
        item = torch.arange(len(inputs), device=gone.device).expand(times, -1)
        before = adapter.predict(inputs)
        said = before.argmax(-1)
        after = predict_each(adapter, inputs, item, gone)
        change = (_odds(before, said) - _odds(after, said.expand(times, -1))).T  # (B, times)
        change = torch.where(change.abs() < ROUNDING, 0.0, change)
        found = []
        for measure in measures.values():
            own = _known(measure(adapter, inputs), inputs.units)
            for scores in (own, *(shuffled(own, inputs.units, draw) for _ in range(draws))):
                told = torch.einsum("tbn,bn->bt", gone.double(), scores)
                found.append(unexplained(told, change))
        return torch.stack(found, -1).tolist()

    table = np.asarray(adapter.each(of_batch), dtype=np.float64).reshape(-1, len(measures), 1 + draws)
    return {name: table[:, place].T for place, name in enumerate(measures)}


def shuffled(scores: Tensor, units: Tensor, draw: torch.Generator) -> Tensor:
    """(B, n): the numbers of the units of each item, on other units of it; the others as they are."""
    order = torch.rand(scores.shape, generator=draw).to(scores.device).masked_fill(~units, torch.inf).argsort(-1)
    inside = torch.arange(scores.shape[-1], device=scores.device) < units.sum(-1, keepdim=True)
    places = (~units).long().sort(dim=-1, stable=True).indices  # the units in their order, then the rest
    moved = scores.gather(-1, order)  # the numbers of the units in a drawn order come first
    return scores.scatter(-1, places, torch.where(inside, moved, scores.gather(-1, places)))


def unexplained(told: Tensor, change: Tensor) -> Tensor:
    """(B,): min over b >= 0 of sum (b told - change)^2 / sum change^2, of (B, times); NaN where there is no change."""
    met, size, all_of_it = (told * change).sum(-1), told.square().sum(-1), change.square().sum(-1)
    saved = met.clamp_min(0.0).square() / size.where(size > 0, 1.0)
    return torch.where(all_of_it > 0, (1 - saved / all_of_it).clamp_min(0.0), math.nan)


def subsets(units: Tensor, times: int, draw: torch.Generator) -> Tensor:
    """(times, B, n) bool: of each item's units a random set, its size drawn from 1 to half of them."""
    score = torch.rand((times, *units.shape), generator=draw).to(units.device).masked_fill(~units, torch.inf)
    half = (units.sum(-1) // 2).clamp_min(1)
    size = (torch.rand((times, len(units)), generator=draw).to(units.device) * half).long() + 1
    return (score.argsort(-1).argsort(-1) < size[..., None]) & units


def _odds(p: Tensor, said: Tensor) -> Tensor:
    """log p / (1 - p) of class said; p (..., classes), where a certainty is cut at the precision of numbers."""
    one = p.gather(-1, said[..., None])[..., 0].clamp(1e-15, 1 - 1e-15)
    return one.log() - (1 - one).log()


def _known(scores: Tensor, units: Tensor) -> Tensor:
    return scores.double().nan_to_num(nan=0.0).masked_fill(~units, 0.0)
