"""What is known of a measure before it is measured, and the fewest instances that a verdict on it needs."""

from typing import Literal

Scale = Literal["share", "real", "skewed"] | tuple[float, float]

FEWEST = {"share": 1, "real": 8, "skewed": 30}
BOUNDED = 8  # of a measure between two bounds


def checked(scale: Scale) -> Scale:
    """The scale, or an error that says which there are.

    "share"      each value is 0 or 1: the exact binomial interval holds at every n
    (low, high)  no value lies outside: below 30 instances the interval is one that holds for any such measure
    "real"       any number, its distribution neither much skewed nor mostly one value
    "skewed"     a long tail or many zeros: divergences without a bound, perplexities, times
    """
    if scale in ("share", "real", "skewed") or (isinstance(scale, tuple) and len(scale) == 2 and scale[0] < scale[1]):
        return scale
    raise ValueError(f"scale={scale!r}: expected 'share', 'real', 'skewed' or bounds (low, high).")


def fewest(scale: Scale) -> int:
    """The instances below which there is no verdict, whatever was measured: the intervals do not hold there.

    `regard validate coverage` simulates them.
    """
    return BOUNDED if isinstance(scale, tuple) else FEWEST[scale]
