"""Parts of the feature-wise kernels: the score of a pair and feature, its slope, and the walks over a block's places.

KIND   0 = tanh, h = -2 r with r = 1 / (1 + exp(2z)), which is tanh but for a constant; 1 = linear z + bent |z| with the
           slope of the negative side at 0; 2 = the same, slope 0 at 0; 3 = -z^2 / 2
JOIN   0 = z is x + y, 1 = z is x y (KIND > 0)
WALK   0 = places that all rows of a block see; 1 = the others; 2 = of tanh: all, where the block is not near

Scores of tanh are in base 2: their `factor` holds log2(e), and `twice` is 2 log2(e), divided by a cap. Others are in
their own unit and differences of them are turned into base 2, so that a large score is not rounded once more.

exp(2 (x + y)) is exp(2x) exp(2y) where a block is near, one exponential a place instead of one a pair. It is near where
its own exponents are at most NEAREST, whatever the others are: an exponential of those ends at 0 or infinity beyond
2^126, and there tanh of the sum is -1 or 1 to the last bit.
"""

import triton
import triton.language as tl

from ..common.pair_scores import reciprocal
from ..common.range_masks import partial_tile, partial_tiles

NEAREST = tl.constexpr(32.0)  # the larger, the more of the product of x and twice is rounded off
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def side(x, twice, NEAR: tl.constexpr):
    """A number of either side, as pairs of a walk want it."""
    if NEAR:
        return tl.exp2(x.to(tl.float32) * twice)
    else:
        return x.to(tl.float32)


@triton.jit
def is_near(x, twice, KIND: tl.constexpr):
    """Whether a block's own numbers are; scores that take no exponential always are."""
    if KIND == 0:
        return tl.max(tl.abs(x.to(tl.float32) * twice)) <= NEAREST
    else:
        return True


@triton.jit
def _fraction(x, y, twice, NEAR: tl.constexpr, INTERPRETED: tl.constexpr):
    """1 / (1 + exp(2 (x + y)))"""
    if NEAR:
        return reciprocal(x * y + 1.0, INTERPRETED)
    else:
        return reciprocal(tl.exp2((x + y) * twice) + 1.0, INTERPRETED)


@triton.jit
def _z(x, y, JOIN: tl.constexpr):
    if JOIN == 0:
        return x + y
    else:
        return x * y


@triton.jit
def score(
    x,
    y,
    factor,
    twice,
    linear,
    bent,
    KIND: tl.constexpr,
    NEAR: tl.constexpr,
    JOIN: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    if KIND == 0:
        return _fraction(x, y, twice, NEAR, INTERPRETED) * (-2.0 * factor)
    elif KIND == 3:
        z = _z(x, y, JOIN)
        return z * z * (-0.5 * factor)
    else:
        z = _z(x, y, JOIN)
        return (linear * z + bent * tl.abs(z)) * factor


@triton.jit
def slope(
    x, y, twice, linear, bent, KIND: tl.constexpr, NEAR: tl.constexpr, JOIN: tl.constexpr, INTERPRETED: tl.constexpr
):
    """h'(z), times y where z is x y; of tanh a quarter of it, r - r^2 with r = 1 / (1 + exp(2z))."""
    if KIND == 0:
        r = _fraction(x, y, twice, NEAR, INTERPRETED)
        return r - r * r
    else:
        z = _z(x, y, JOIN)
        if KIND == 3:
            bend = -z
        else:
            below = -bent if KIND == 1 else bent * 0.0
            bend = linear + tl.where(z > 0, bent, tl.where(z < 0, -bent, below))
        return bend if JOIN == 0 else bend * y


@triton.jit
def power(s, KIND: tl.constexpr):
    """exp of a difference of scores."""
    if KIND == 0:
        return tl.exp2(s)
    else:
        return tl.exp2(s * LOG2E)


@triton.jit
def more(total, lost, x, EXACT: tl.constexpr):
    """total + x; EXACT: with what rounding loses kept beside it (Kahan's sum)."""
    if EXACT:
        x -= lost
        larger = total + x
        return larger, (larger - total) - x
    else:
        return total + x, lost


@triton.jit
def features_of(BF: tl.constexpr):
    """(BF, 1): this program's, reshaped so that no load in fours puts neighbours into one thread."""
    return tl.program_id(1) * BF + tl.reshape(tl.arange(0, BF), [BF, 1])


@triton.jit
def line(base, j, f, F: tl.constexpr):
    """(BF, 1): one place of a head's table (places, F)."""
    return tl.load(base + j.to(tl.int64) * F + f, mask=f < F, other=0.0)


@triton.jit
def bias_of(BIAS, j, f, bias_j, bias_f, real, KIND: tl.constexpr):
    """A bias of keys in the unit of scores."""
    at = j.to(tl.int64) * bias_j + f.to(tl.int64) * bias_f
    bias = tl.load(BIAS + at, mask=real, other=0.0).to(tl.float32)
    return bias * LOG2E if KIND == 0 else bias


@triton.jit
def turns_of(start, inner, outer, stop, near, WALK: tl.constexpr):
    """How many places a walk has; of inner to outer all rows see all."""
    if WALK == 2:
        return tl.where(near, 0, stop - start)
    else:
        turns = outer - inner if WALK == 0 else partial_tiles(start, inner, outer, stop, 1)
        return tl.where(near, turns, 0)


@triton.jit
def place_of(turn, start, inner, outer, WALK: tl.constexpr):
    if WALK == 0:
        return inner + turn
    elif WALK == 1:
        return partial_tile(turn, start, inner, outer, 1)
    else:
        return start + turn


@triton.jit
def may_see(i, j, left, right, KEEP, KEPT: tl.constexpr):
    """(1, BLOCK_M): the rows that may see place j."""
    may = (i <= j + left) & (i >= j - right)  # one number a row: sums of it with two would be kept
    if KEPT:
        may = may & (tl.load(KEEP + j) > 0)
    return may
