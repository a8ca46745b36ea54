"""q_i (sum_j k_j v_j^T) over the rows j of i's segment, in blocks of rows.

The outer products of single rows would take n d d_v numbers. Rows of a segment are grouped into blocks of at most
BLOCK, padded with zeros, so that each product is one of matrices and there is one state for each block and segment.
"""

import torch
from torch import Tensor

BLOCK = 64


def in_segments(q: Tensor, k: Tensor, v: Tensor, ids: Tensor | None, count: int) -> Tensor:
    """q, k (g, n, d), v (g, n, d_v), ids (n,) in any order  ->  (g, n, d_v)."""
    if ids is None:
        return q @ (k.mT @ v)
    place, owner = _places(ids, count)
    blocks = owner.shape[0]
    keys, values, asked = (_spread(x, place, blocks) for x in (k, v, q))  # (blocks, g, BLOCK, d)
    states = keys.mT @ values
    total = states.new_zeros(count, *states.shape[1:]).index_put((owner,), states, accumulate=True)
    found = asked @ total[owner]
    return found.transpose(0, 1).flatten(1, 2)[:, place]


def _places(ids: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(n,) the slot of each row among all blocks; (blocks,) the segment of each block."""
    n, device = ids.shape[0], ids.device
    ids = ids.long()
    size = torch.zeros(count, dtype=torch.long, device=device).scatter_add_(0, ids, torch.ones_like(ids))
    order = torch.argsort(ids, stable=True)
    first = size.cumsum(0) - size
    rank = torch.empty_like(ids).scatter_(0, order, torch.arange(n, device=device)) - first[ids]
    needed = (size + BLOCK - 1) // BLOCK
    ends = needed.cumsum(0)
    blocks = n // BLOCK + count  # an upper bound: shapes must not depend on the values of ids
    owner = torch.searchsorted(ends, torch.arange(blocks, device=device), right=True).clamp_max(max(0, count - 1))
    return ((ends - needed)[ids] + rank // BLOCK) * BLOCK + rank % BLOCK, owner


def _spread(x: Tensor, place: Tensor, blocks: int) -> Tensor:
    """(g, n, d) -> (blocks, g, BLOCK, d), zeros in empty slots."""
    g, _, d = x.shape
    wide = x.new_zeros(g, blocks * BLOCK, d).index_copy(1, place, x)
    return wide.unflatten(1, (blocks, BLOCK)).transpose(0, 1)
