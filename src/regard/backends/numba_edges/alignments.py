"""Alignments of a batch of rows, in place: scores -> s - tau -> weights, and tau of each row."""

import math

import numpy as np

from .config import ENTMAX, HALF, NEWTON_STEPS, ONE, SIGMOID, SOFTMAX, SPARSEMAX, TOPK, TWO, UNIFORM, ZERO, f32
from .elementwise import exp
from .jit import helper
from .vector_ops import line_add, line_fill, line_maximum, line_multiply, line_subtract


@helper
def shifted_to_weights(buffer, count, config):
    """f(s - tau), in place of s - tau. NaN scores give NaN weights."""
    flat, size = buffer.reshape(buffer.size), count * config.heads
    if config.align == SPARSEMAX:
        for k in range(size):
            flat[k] = ZERO if flat[k] <= ZERO else flat[k]
    elif config.align == ENTMAX:
        for k in range(size):
            x = HALF * (ZERO if flat[k] <= ZERO else flat[k])
            flat[k] = x * x
    elif config.align == SIGMOID:
        for k in range(size):
            flat[k] = ONE / (ONE + exp(-flat[k]))
    else:
        for k in range(size):
            flat[k] = exp(flat[k])


@helper
def _newton_threshold(buffer, lo, hi, h, config):
    """Newton's steps from the left end to sum f(s - tau) = 1; the largest score is 0."""
    tau = -ONE if config.align == SPARSEMAX else -TWO
    for _ in range(NEWTON_STEPS):
        total, slope = ZERO, ZERO
        for e in range(lo, hi):
            rest = buffer[e, h] - tau
            rest = rest if rest > ZERO else ZERO
            if config.align == SPARSEMAX:
                total += rest
                slope += ONE if rest > ZERO else ZERO
            else:
                total += rest * rest
                slope += rest
        if config.align == ENTMAX:
            total, slope = total / f32(4), slope * HALF
        if slope == ZERO:  # of the largest score alone it is more, unless that is NaN
            return f32(np.nan)
        step = (total - ONE) / slope
        if not step > ZERO:
            break
        before = tau
        tau += step
        if tau == before:
            break
    return tau


@helper
def _keep_top_k(buffer, lo, hi, names, i, index, best, config):
    """Leaves the k best scores of a row and head and closes the others; index[i, h] names their edges, -1 for none."""
    many = index.shape[2]
    for h in range(config.heads):
        found = 0
        for e in range(lo, hi):  # the best so far, largest first; of equal ones the earlier stays
            x = buffer[e, h]
            if x == -np.inf or (found == many and not (x > buffer[best[found - 1], h] or x != x)):
                continue
            at = min(found, many - 1)
            while at > 0 and (x > buffer[best[at - 1], h] or (x != x and not math.isnan(buffer[best[at - 1], h]))):
                best[at] = best[at - 1]
                at -= 1
            best[at] = e
            found = min(found + 1, many)
        for slot in range(many):
            index[i, h, slot] = names[best[slot]] if slot < found else -1
        at = 0
        best[:found].sort()
        for e in range(lo, hi):
            if at < found and best[at] == e:
                at += 1
            else:
                buffer[e, h] = -np.inf


@helper
def shift_by_tau(plan, p, q, buffer, tau, below, names, index, best, config):
    """Rows of scores into s - tau, or s - max for the softmax, in place; tau is filled, +inf where no score is open.

    With config.apart tau is the largest score, and below (n, H) the rest of tau.
    """
    row, first, last, heads, hi = plan.row, plan.first, plan.last, config.heads, 0
    for piece in range(p, q):
        lo, i = hi, row[piece]
        hi, at = lo + last[piece] - first[piece], i * heads
        if config.align == UNIFORM or config.align == SIGMOID:
            for h in range(heads):
                seen = 0
                for e in range(lo, hi):
                    seen += config.align == UNIFORM or buffer[e, h] > -np.inf
                x = math.log(seen) if config.align == UNIFORM or math.isnan(config.bias) else -config.bias
                tau[i, h] = x if seen else np.inf
                for e in range(lo, hi):
                    buffer[e, h] = (ZERO if config.align == UNIFORM else buffer[e, h]) - tau[i, h]
            continue
        if config.align == TOPK:
            _keep_top_k(buffer, lo, hi, names, i, index, best, config)
        if heads == 1 and (config.align == SOFTMAX or config.align == TOPK):
            tau[i, 0] = -np.inf
            for e in range(lo, hi):
                tau[i, 0] = tau[i, 0] if buffer[e, 0] <= tau[i, 0] else buffer[e, 0]
            if tau[i, 0] == -np.inf:
                tau[i, 0] = np.inf
            for e in range(lo, hi):
                buffer[e, 0] -= tau[i, 0]
            continue
        line_fill(tau, at, tau, at, tau, at, heads, -np.inf)
        for e in range(lo, hi):
            line_maximum(tau, at, buffer, e * heads, tau, at, heads, ZERO)
        for h in range(heads):
            top = tau[i, h]
            if top == -np.inf:
                tau[i, h] = np.inf
            elif config.align == SPARSEMAX or config.align == ENTMAX:
                for e in range(lo, hi):
                    buffer[e, h] -= top
                rest = _newton_threshold(buffer, lo, hi, h, config)
                for e in range(lo, hi):  # of large scores, top + rest is rounded
                    buffer[e, h] -= rest
                if config.apart:
                    below[i, h] = rest
                else:
                    tau[i, h] = top + rest
        if config.align == SPARSEMAX or config.align == ENTMAX:
            continue
        for e in range(lo, hi):
            line_subtract(buffer, e * heads, tau, at, tau, at, heads, ZERO)


@helper
def normalize_softmax(plan, p, q, buffer, tau, below, total, config):
    """Softmax: exponentials of a row are divided by their sum, and tau goes from the largest score to log sum exp; with
    config.apart what is added goes to below."""
    if config.align != SOFTMAX and config.align != TOPK:
        return
    row, first, last, heads, hi = plan.row, plan.first, plan.last, config.heads, 0
    for piece in range(p, q):
        lo, i = hi, row[piece]
        hi = lo + last[piece] - first[piece]
        if heads == 1:
            total[0, 0], top = ZERO, tau[i, 0]
            for e in range(lo, hi):
                total[0, 0] += buffer[e, 0]
            x = total[0, 0]
            if config.apart:
                below[i, 0] = math.log(x) if top < np.inf or top != top else ZERO
            else:
                tau[i, 0] = top + math.log(x) if top < np.inf or top != top else np.inf
            total[0, 0] = ONE / x if x > ZERO or x != x else ZERO
            for e in range(lo, hi):
                buffer[e, 0] *= total[0, 0]
            continue
        line_fill(total, 0, total, 0, total, 0, heads, ZERO)
        for e in range(lo, hi):
            line_add(total, 0, buffer, e * heads, total, 0, heads, ZERO)
        for h in range(heads):
            x, top = total[0, h], tau[i, h]
            if config.apart:
                below[i, h] = math.log(x) if top < np.inf or top != top else ZERO
            else:
                tau[i, h] = top + math.log(x) if top < np.inf or top != top else np.inf
            total[0, h] = ONE / x if x > ZERO or x != x else ZERO
        for e in range(lo, hi):
            line_multiply(buffer, e * heads, total, 0, total, 0, heads, ZERO)
