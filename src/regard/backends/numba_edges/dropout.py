"""Dropout by Philox-4x32-10: the draws of core.philox, so that a mask depends on seed, head and edge alone."""

import numpy as np

from .config import ZERO
from .jit import helper, ieee


@ieee
def _philox_words(names, count, group, config, words):
    """words[0:4, e] for the heads 4 group to 4 group + 3 of an edge: Philox-4x32-10, as core.philox, less nine bits."""
    mask, half, nine = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(9)
    m0, m1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    for e in range(count):
        c0, c1, c2, c3 = np.uint64(names[e]) & mask, np.uint64(0), np.uint64(group), np.uint64(config.batch)
        k0, k1 = np.uint64(config.key0), np.uint64(config.key1)
        for _ in range(10):
            p0, p1 = c0 * m0, c2 * m1
            c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & mask, (p0 >> half) ^ c3 ^ k1, p0 & mask
            k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
        words[0, e], words[1, e] = np.int32(c0 >> nine), np.int32(c1 >> nine)
        words[2, e], words[3, e] = np.int32(c2 >> nine), np.int32(c3 >> nine)


@helper
def dropout_mask(names, count, config, words, mask):
    """mask[e, h]: what dropout multiplies each weight by."""
    heads, least = config.heads, np.int32(config.least)
    flat = mask.reshape(mask.size)
    for group in range((heads + 3) // 4):
        _philox_words(names, count, group, config, words)
        for lane in range(min(4, heads - 4 * group)):
            at = 4 * group + lane
            for e in range(count):
                flat[e * heads + at] = config.keep if words[lane, e] >= least else ZERO
