"""Random numbers inside kernels: those of core/lowering/philox.py, so that each backend draws the same.

One call of the generator serves four neighbouring keys: counter (key // 4, query, head, item), word key % 4.
"""

import triton
import triton.language as tl


@triton.jit
def to_unit(word):
    """32 random bits as a number in (0, 1)."""
    return ((word >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07


@triton.jit
def uniform(seed, queries, first_key, head, batch, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, KEYS: tl.constexpr):
    """(BLOCK_M, BLOCK_N) of a tile of queries and keys; KEYS: its rows are keys, its columns queries."""
    if KEYS:
        quads = (first_key // 4 + tl.arange(0, BLOCK_M // 4))[:, None]
        query = queries[None, :]
    else:
        quads = (first_key // 4 + tl.arange(0, BLOCK_N // 4))[None, :]
        query = queries[:, None]
    zero = (query * 0 + quads * 0).to(tl.uint32)
    c0, c1 = quads.to(tl.uint32) + zero, query.to(tl.uint32) + zero
    w0, w1, w2, w3 = tl.philox(seed, c0, c1, zero + head.to(tl.uint32), zero + batch.to(tl.uint32))
    word = tl.join(tl.join(w0, w1), tl.join(w2, w3))  # the last axis is the higher one of the two
    if KEYS:
        word = tl.reshape(tl.permute(word, (0, 3, 2, 1)), [BLOCK_M, BLOCK_N])
    else:
        word = tl.reshape(tl.permute(word, (0, 1, 3, 2)), [BLOCK_M, BLOCK_N])
    return to_unit(word)


@triton.jit
def or_dropped(unit, dropout):
    """1 / (1 - p) or 0."""
    return tl.where(unit >= dropout, 1.0 / (1.0 - dropout), 0.0)
