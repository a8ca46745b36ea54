"""A tile of a map inside kernels: scores as the dense kernels have them, and weights from what is known of each row.

KEYS    a program has keys and walks over rows: the tile lies across, (keys, rows)
ALIGN   of `dense/weights`; softmax and sigmoid take scores in base 2
PICKED  only the PICKS keys of a row's INDEX weigh anything: 1 as they do, 2 one each
"""

import triton
import triton.language as tl

from ..common.philox import uniform
from ..common.range_masks import length_of, span_of
from ..dense.tile import LOG2E, bell, meeting, products
from ..dense.weights import weights


@triton.jit
def head_of(g, first_head, heads, features, LENGTHS, m, keep_b, keep_h, PADDED: tl.constexpr):
    """Of one head and feature of some heads of a map: the head among these, its item and its number there, how many
    keys there are to see, and where its mask of keys stands."""
    own = g // features
    batch, head = (own + first_head) // heads, (own + first_head) % heads
    return own, batch, head, length_of(LENGTHS, batch, m, PADDED), batch * keep_b + head * keep_h


@triton.jit
def of_head(MODES, SEED, POWER, g, own, CORE: tl.constexpr, ALIGN: tl.constexpr, SAMPLED: tl.constexpr):
    """Of a head: the mode of tanh, the seed of its noise, the power of an entmax; 0 or 1 where there is none."""
    mode = tl.load(MODES + g) if CORE == 1 else 0
    seed = tl.load(SEED) if SAMPLED else 0
    power = tl.load(POWER + own) if ALIGN == 4 else 1.0
    return mode, seed, power


@triton.jit
def places_of(own, other, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, KEYS: tl.constexpr):
    """Rows i and keys j of a tile, beside each other."""
    if KEYS:
        return (other + tl.arange(0, BLOCK_N))[None, :], (own + tl.arange(0, BLOCK_M))[:, None]
    else:
        return (own + tl.arange(0, BLOCK_M))[:, None], (other + tl.arange(0, BLOCK_N))[None, :]


@triton.jit
def known_of(
    TAU,
    OWN,
    SHARE,
    CENTRE,
    LOW,
    HIGH,
    by_feature,
    by_head,
    i,
    n,
    ALIGN: tl.constexpr,
    OWNED: tl.constexpr,
    SHARED: tl.constexpr,
    BELL: tl.constexpr,
    SPANNED: tl.constexpr,
):
    """Of rows i, in their shape: tau, what is added to their scores, what their weights are multiplied with, the centre
    of their bell, the stretch of keys that they see."""
    real = i < n
    tau = tl.load(TAU + by_feature + i, mask=real, other=float("inf"))
    if ALIGN <= 1:
        tau *= LOG2E
    added = 0.0
    if OWNED:
        added = tl.load(OWN + by_feature + i, mask=real, other=0.0)
    share = 1.0
    if SHARED:
        share = tl.load(SHARE + by_feature + i, mask=real, other=0.0)
    centre = 0.0
    if BELL:
        centre = tl.load(CENTRE + by_head + i, mask=real, other=0.0)
    low, high = span_of(LOW + by_head, HIGH + by_head, i, n, SPANNED)
    return tau, added, share, centre, low, high


@triton.jit
def _tanh(x):
    """By exponentials, and by its series near 0, where these would cancel."""
    y = x * x
    near = x * (1.0 + y * (-1 / 3 + y * (2 / 15 + y * (-17 / 315))))
    return tl.where(y < 0.02, near, 1.0 - 2.0 / (1.0 + tl.exp2(tl.minimum(x, 30.0) * (2.0 * LOG2E))))


@triton.jit
def scores_of(
    x,
    XT,
    YT,
    Y,
    R,
    mode,
    added,
    BIAS,
    seed,
    own,
    other,
    total,
    m,
    scale,
    cap,
    cool,
    batch,
    head,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    CAPPED: tl.constexpr,
    SAMPLED: tl.constexpr,
    KEYS: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Scores (BLOCK_M, BLOCK_N) of vectors x from `own` on and the others from `other` on, before any mask.

    cap: scores are cap tanh(s / cap). cool: noise is drawn times it, in base 2 (a soft draw).
    """
    s = products(
        x,
        XT,
        YT,
        Y,
        R,
        mode,
        BIAS,
        own,
        other,
        total,
        CORE,
        D,
        DP,
        WIDTH,
        BLOCK_M,
        BLOCK_N,
        0,
        WHOLE,
        PRECISION,
        INTERPRETED,
    )
    if CORE == 0:
        s *= scale
    if OWNED:
        s += added
    if BIASED:
        _, j = places_of(own, other, BLOCK_M, BLOCK_N, KEYS)
        s += tl.load(BIAS + j, mask=j < m, other=0.0)
    if CAPPED:
        s = cap * _tanh(s / cap)
    if SAMPLED:
        if KEYS:
            drawn = uniform(seed, other + tl.arange(0, BLOCK_N), own, head, batch, BLOCK_M, BLOCK_N, True)
        else:
            drawn = uniform(seed, own + tl.arange(0, BLOCK_M), other, head, batch, BLOCK_M, BLOCK_N, False)
        s -= tl.log2(-tl.log(drawn)) * cool  # Gumbel's
    return s


@triton.jit
def opened_of(s, i, j, KEEP, low, high, n, length, m, left, right, KEPT: tl.constexpr, SPANNED: tl.constexpr):
    """Scores, -inf where a pair may not meet; and where it may."""
    may = meeting(i, j, KEEP, low, high, n, length, m, left, right, KEPT, SPANNED)
    return tl.where(may, s, -float("inf")), may


@triton.jit
def weights_of(
    z,
    i,
    j,
    share,
    centre,
    INDEX,
    power,
    narrow,
    n,
    ALIGN: tl.constexpr,
    SHARED: tl.constexpr,
    BELL: tl.constexpr,
    PICKED: tl.constexpr,
    PICKS: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """f(z) times what is known of the pairs, z = s - tau."""
    w = weights(z, 0.0, power, ALIGN, INTERPRETED)
    if ALIGN > 1:
        w = tl.where(z != z, z, w)  # of a row that sees what is no number
    if SHARED:
        w *= share
    if BELL:
        w *= bell(j.to(tl.float32) - centre, narrow)
    if PICKED > 0:
        hit = (i + j) < 0
        for place in range(PICKS):
            hit = hit | (tl.load(INDEX + i.to(tl.int64) * PICKS + place, mask=i < n, other=-1) == j)
        if PICKED == 2:
            w = tl.where(z > -float("inf"), 1.0, 0.0)
        w = tl.where(hit, w, 0.0)
    return w


@triton.jit
def terms_of(z, w, ALIGN: tl.constexpr, BELL: tl.constexpr, PICKED: tl.constexpr):
    """w log2 w"""
    if ALIGN != 0 or BELL or PICKED == 2:
        z = tl.log2(tl.maximum(w, 1e-37))
    return tl.where(w > 0, w * z, 0.0)
