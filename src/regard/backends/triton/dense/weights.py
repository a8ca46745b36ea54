"""Weights from scores and tau inside kernels, their slopes, the step towards tau, and the gradient of the scores.

ALIGN  0 = softmax, 1 = sigmoid, 2 = sparsemax, 3 = entmax 1.5, 4 = entmax of any alpha (power = 1 / (alpha - 1))

Softmax and sigmoid take scores in base 2.
"""

import triton
import triton.language as tl

from ..common.pair_scores import MAX_EXPONENT_OF_TWO
from ..common.sigmoid import logistic


@triton.jit
def weights(
    s,
    tau,
    power,
    ALIGN: tl.constexpr,
    INTERPRETED: tl.constexpr,
    WHOLE: tl.constexpr = False,
    FOUR: tl.constexpr = False,
):
    """f(s - tau); 0 where s is -inf or tau is +inf. WHOLE: no pair is closed. FOUR of a sigmoid share a reciprocal."""
    if ALIGN == 0:
        return tl.exp2(s - tau)
    elif ALIGN == 1:
        w = logistic(tau - s, INTERPRETED, FOUR)  # nothing is subtracted: small weights keep their bits
        return w if WHOLE else tl.where(tau - s >= MAX_EXPONENT_OF_TWO, 0.0, w)  # what is no number stays none
    elif ALIGN == 2:
        return tl.maximum(s - tau, 0.0)
    elif ALIGN == 3:
        half = tl.maximum(s - tau, 0.0) * 0.5
        return half * half
    else:
        base = tl.maximum(s - tau, 0.0) / power  # 1e-37: a smaller constant would be fp64
        return tl.where(base > 0, tl.exp2(tl.log2(tl.maximum(base, 1e-37)) * power), 0.0)


@triton.jit
def slopes(s, tau, power, ALIGN: tl.constexpr):
    """f'(s - tau) of sparse alignments: w^(2 - alpha) on the support."""
    if ALIGN == 2:
        return tl.where(s > tau, 1.0, 0.0)
    elif ALIGN == 3:
        return tl.maximum(s - tau, 0.0) * 0.5
    else:
        base = tl.maximum(s - tau, 0.0) / power
        return tl.where(base > 0, tl.exp2(tl.log2(tl.maximum(base, 1e-37)) * (power - 1.0)), 0.0)


@triton.jit
def moments(s, tau, power, ALIGN: tl.constexpr):
    """Of each row, the sums of f and f' at s - tau."""
    if ALIGN == 3:
        rest = tl.maximum(s - tau, 0.0)
        return 0.25 * tl.sum(rest * rest, 1), 0.5 * tl.sum(rest, 1)
    else:
        return tl.sum(weights(s, tau, power, ALIGN, True), 1), tl.sum(slopes(s, tau, power, ALIGN), 1)


@triton.jit
def stepped(tau, total, slope, power, ALIGN: tl.constexpr):
    """From the sums of f and f' of each row, Newton's step for the first to the power 1 / power; and whether a row is
    still on its way.

    That is a norm of what scores have above tau, so it falls and is convex, and steps from the left never go too far.
    Halley's went where no score is, and stayed: of some keys alike and many that lie two below them. A step leaves its
    square times the slope or less; where f has a corner at tau, what lies beside the corner counts.
    """
    over = total - 1.0
    if ALIGN == 3:
        over = 2.0 * (total - tl.sqrt_rn(total))
    elif ALIGN == 4:
        bent = power * (total - tl.exp2(tl.log2(tl.maximum(total, 1e-37)) * (1.0 - 1.0 / power)))
        over = tl.where(tl.abs(over) < 0.01, over, bent)
    move = tl.where(slope > 0, over / tl.where(slope > 0, slope, 1.0), 0.0)
    tau += move
    far = slope * move * move > 1e-6
    if ALIGN != 3:
        far = far | ((power < 2.0) & (tl.abs(move) > 1e-5))
    return tau, tl.max((far & (tl.abs(move) > 4e-7 * tl.abs(tau))).to(tl.int32), 0)


@triton.jit
def pulled(s, tau, w, dw, delta, power, ALIGN: tl.constexpr):
    """The gradient of the scores from that of the weights; delta is the mean of dw that the row takes out."""
    if ALIGN == 0:
        return w * (dw - delta)
    elif ALIGN == 1:
        return (w - w * w) * dw  # an instruction less than w (1 - w), and no less exact
    else:
        return slopes(s, tau, power, ALIGN) * (dw - delta)
