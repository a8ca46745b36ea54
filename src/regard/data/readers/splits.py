"""Splits into training, validation and test parts: by a column of the file, or random from a seed."""

from collections.abc import Hashable, Sequence

import numpy as np

PARTS = ("train", "val", "test")
NAMES = {
    "train": 0,
    "training": 0,
    "val": 1,
    "valid": 1,
    "validation": 1,
    "dev": 1,
    "test": 2,
}
SHARES = (0.70, 0.85)  # cumulative: end of train, end of val


def drawn_parts(strata: Sequence[Hashable], seed: int = 0, groups: "Sequence[Hashable] | None" = None) -> list[int]:
    """A stratified random split: 0 train (70 %), 1 val (15 %) or 2 test (15 %) for each instance; seeded.

    strata   classes: their shares are about the same in each part
    groups   instances of one group (duplicates) share a part

    No part is empty if there are three groups; a class with a single instance is in train.
    """
    first: dict[Hashable, int] = {}
    for place, group in enumerate(range(len(strata)) if groups is None else groups):
        first.setdefault(group, place)
    members: dict[Hashable, list[int]] = {}
    for place in first.values():
        members.setdefault(strata[place], []).append(place)
    draw = np.random.default_rng(seed)
    ranked: list[tuple[float, int]] = []
    for stratum in members.values():
        order = draw.permutation(len(stratum))
        ranked += [((rank + 0.5) / len(stratum), stratum[at]) for rank, at in enumerate(order.tolist())]
    ranked.sort()
    count = len(ranked)
    ends = [min(max(round(share * count), 1), count - 2 + at) for at, share in enumerate(SHARES)]
    ends[1] = max(ends[1], ends[0] + 1)
    part = {place: int(at >= ends[0]) + int(at >= ends[1]) for at, (_, place) in enumerate(ranked)}
    keys = range(len(strata)) if groups is None else groups
    return [part[first[key]] for key in keys]


def completed(parts: Sequence[int], strata: Sequence[Hashable], seed: int = 0) -> list[int]:
    """Given parts; without a val part, about a sixth of `train` is sampled for it."""
    made = list(parts)
    if 1 not in made:
        train = [place for place, part in enumerate(made) if part == 0]
        for place, part in zip(train, drawn_parts([strata[at] for at in train], seed), strict=True):
            made[place] = int(part == 1)
    return made
