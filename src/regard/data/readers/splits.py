"""Which instances are learned from, chosen by and judged on: by a column of the file, or drawn by a seed."""

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
SHARES = (0.70, 0.85)  # train ends, val ends


def drawn_parts(strata: Sequence[Hashable], seed: int = 0, groups: "Sequence[Hashable] | None" = None) -> list[int]:
    """0 to train (70 %), 1 to choose (15 %) or 2 to judge (15 %), for each instance; the same for the same seed.

    strata   classes: each part has about the same share of each
    groups   instances of one group (the same text twice) share a part

    Each part has an instance where there are three groups; a class with one instance is learned from.
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
    """Named parts; where the file names none to choose by, about a sixth of `train` is drawn for that."""
    made = list(parts)
    if 1 not in made:
        train = [place for place, part in enumerate(made) if part == 0]
        for place, part in zip(train, drawn_parts([strata[at] for at in train], seed), strict=True):
            made[place] = int(part == 1)
    return made
