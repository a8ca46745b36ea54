"""Weights by place: how much a unit is looked at for where it stands in a text, whatever it is."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..statistics.divergence import over_units
from .inputs import Inputs


@dataclass(frozen=True)
class PlaceProfile:
    """Sums and counts of relative weights by the place of a unit, (places,) each, counted from the start and the end.

    r_j = n w_j,   w the weights over the n units of an instance, sum 1: 1 where all are alike
    """

    from_start: Tensor
    from_end: Tensor
    count: Tensor

    def expected(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """(B, n): the relative weight that the *other* instances have at the place of each unit; the mean of the one
        counted from the start and the one counted from the end, so that the last word has a place of its own. 1 where
        no other instance is as long.

        weights   (B, n), those of these instances, which are part of the sums
        """
        found = torch.zeros(inputs.real.shape, dtype=torch.float64, device=inputs.real.device)
        for item, own in enumerate(relative_weights(weights, inputs)):
            size = len(own)
            others = (self.count[:size] - 1).clamp_min(0)
            start, end = self.from_start[:size] - own, self.from_end[:size] - own.flip(0)
            ahead, back = (torch.where(others > 0, x / others.clamp_min(1), 1.0) for x in (start, end))
            found[item, inputs.units[item]] = ((ahead + back.flip(0)) / 2).to(found)
        return found


def relative_weights(weights: Tensor, inputs: Inputs) -> list[Tensor]:
    """Of each item (units,): its weights over the units, times their number; on the CPU."""
    shares = over_units(weights.double(), inputs.units).cpu()
    return [row[some] * some.sum() for row, some in zip(shares, inputs.units.cpu(), strict=True)]


def place_profile(relative: Sequence[Tensor]) -> PlaceProfile:
    """The profile of instances, by their relative weights."""
    longest = max((len(one) for one in relative), default=0)
    start, end, count = (torch.zeros(longest, dtype=torch.float64) for _ in range(3))
    for one in relative:
        start[: len(one)] += one
        end[: len(one)] += one.flip(0)
        count[: len(one)] += 1
    return PlaceProfile(start, end, count)
