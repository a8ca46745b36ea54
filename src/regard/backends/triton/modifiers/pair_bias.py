"""A given number for each pair on a tile of scores: s' = s + bias_ij of the item, or of the items that share it."""

from typing import Any, NamedTuple

import triton
import triton.language as tl


class PairNumbers(NamedTuple):
    """What a pair bias holds; its strides are 0 where an axis is 1 long."""

    bias: Any
    by_item: Any
    by_head: Any
    by_query: Any
    by_key: Any
    share: Any  # items of the batch that have one bias
    n: Any
    m: Any


@triton.jit
def pair_bias(s, held, query, key, batch, head):
    own = held.bias + (batch // held.share) * held.by_item + head * held.by_head
    at = query.to(tl.int64) * held.by_query + key.to(tl.int64) * held.by_key
    return s + tl.load(own + at, mask=(query < held.n) & (key < held.m), other=0.0).to(tl.float32)
