"""What the edge kernels are made of: gathering rows, scoring an edge, the gradient of that score, dropout.

KIND   0 = GAT, leaky(a_i + b_j); 1 = pair, r . act(a_i + b_j); 2 = dot, scale a_i . b_j.
ACT    0 = leaky ReLU (a slope of 0 is ReLU, of 1 the identity); 1 = tanh.
KEY    how an edge's own key joins that of its source: 0 = there is none, 1 = b_j + k_e, 2 = b_j * k_e.
VALUE  an edge's own value: 0 = there is none, 1 = v_j + x_e, 2 = v_j + k_e (its key, read and written once).

GAT's parts are numbers, (edges, heads); the others have a width, (edges, heads, width). Node-major tables have a unit
stride over their width; what kernels write is contiguous.
"""

import triton
import triton.language as tl

from ..common.philox import or_dropped, to_unit

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def work_item(items, i):
    """row (-1: nothing to do), first and last place, slot, pieces of the row."""
    at = items + i * 5
    return tl.load(at).to(tl.int64), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3).to(tl.int64), tl.load(at + 4)


@triton.jit
def rows(base, index, stride_n, stride_h, stride_d, h, d, real, wide):
    """(edges, heads, width) of some nodes or edges, fp32."""
    where = index.to(tl.int64)[:, None, None] * stride_n + h[None, :, None] * stride_h + d[None, None, :] * stride_d
    return tl.load(base + where, mask=real[:, None, None] & wide[None, :, :], other=0.0).to(tl.float32)


@triton.jit
def gather(KIND: tl.constexpr, base, index, stride_n, stride_h, h, d, real, head, wide):
    """What a score reads of some nodes or edges: (edges, heads[, width])."""
    if KIND == 0:
        where = index.to(tl.int64)[:, None] * stride_n + h[None, :] * stride_h
        return tl.load(base + where, mask=real[:, None] & head[None, :], other=0.0).to(tl.float32)
    else:
        return rows(base, index, stride_n, stride_h, 1, h, d, real, wide)


@triton.jit
def own(KIND: tl.constexpr, base, row, stride_n, stride_h, h, d, head, wide):
    """The same of the one node that a program owns: (1, heads[, width])."""
    if KIND == 0:
        return tl.load(base + row * stride_n + h * stride_h, mask=head, other=0.0).to(tl.float32)[None, :]
    else:
        where = row * stride_n + h[:, None] * stride_h + d[None, :]
        return tl.load(base + where, mask=wide, other=0.0).to(tl.float32)[None, :, :]


@triton.jit
def readout(KIND: tl.constexpr, R, h, d, D: tl.constexpr, wide):
    """r (1, heads, width), where the score has one."""
    if KIND == 1:
        return tl.load(R + h[:, None] * D + d[None, :], mask=wide, other=0.0).to(tl.float32)[None, :, :]
    else:
        return tl.zeros([1, 1, 1], tl.float32)


@triton.jit
def put(base, row, x, h, d, H: tl.constexpr, D: tl.constexpr, wide):
    """One row of a contiguous table (nodes, H, D)."""
    tl.store(base + row * (H * D) + h[:, None] * D + d[None, :], x.to(base.dtype.element_ty), mask=wide)


@triton.jit
def put_rows(KIND: tl.constexpr, base, index, x, h, d, H: tl.constexpr, D: tl.constexpr, real, head, wide):
    """(edges, heads[, width]) into a contiguous table, each row at its own place."""
    index = index.to(tl.int64)
    x = x.to(base.dtype.element_ty)
    if KIND == 0:
        tl.store(base + index[:, None] * H + h[None, :], x, mask=real[:, None] & head[None, :])
    else:
        where = index[:, None, None] * (H * D) + h[None, :, None] * D + d[None, None, :]
        tl.store(base + where, x, mask=real[:, None, None] & wide[None, :, :])


@triton.jit
def joined(KEY: tl.constexpr, b, k):
    """The key of an edge from that of its source and its own."""
    if KEY == 1:
        return b + k
    else:
        return b * k


@triton.jit
def tanh(x):
    """To two ulp: a ratio of exponentials, and a polynomial where that would cancel."""
    size = tl.abs(x)
    fade = tl.exp2(size * (-2.0 * LOG2E))
    far = (1.0 - fade) / (1.0 + fade)
    y = x * x
    near = x * (1.0 + y * (-0.3333333333 + y * (0.1333333333 + y * (-0.0539682540 + y * 0.0218694885))))
    return tl.where(size < 0.3, near, tl.where(x < 0, -far, far))


@triton.jit
def act(ACT: tl.constexpr, x, slope):
    if ACT == 0:
        return tl.where(x > 0, x, x * slope)
    else:
        return tanh(x)


@triton.jit
def bent(ACT: tl.constexpr, x, r, slope):
    """r act'(x)"""
    if ACT == 0:
        return tl.where(x > 0, r, r * slope)
    else:
        y = tanh(x)
        return r * (1.0 - y * y)


@triton.jit
def score(KIND: tl.constexpr, ACT: tl.constexpr, a, b, r, scale, slope):
    """(edges, heads) from a query and joined keys."""
    if KIND == 0:
        return act(0, a + b, slope)
    elif KIND == 1:
        return tl.sum(act(ACT, a + b, slope) * r, 2)
    else:
        return tl.sum(a * b, 2) * scale


@triton.jit
def pull(KIND: tl.constexpr, ACT: tl.constexpr, ds, a, b, r, slope):
    """From ds to the gradient of a joined key, like it. A dot's scale is left to the sums."""
    if KIND == 0:
        return tl.where(a + b > 0, ds, ds * slope)
    elif KIND == 1:
        return ds[:, :, None] * bent(ACT, a + b, r, slope)
    else:
        return ds[:, :, None] * a


@triton.jit
def own_key(KIND: tl.constexpr, KEY: tl.constexpr, dk, b, scale):
    """The gradient of an edge's own key from that of the joined key."""
    x = dk
    if KEY == 2:
        x = x * b
    if KIND == 2:
        x = x * scale
    return x


@triton.jit
def over_edges(KIND: tl.constexpr, x):
    """(heads, width): the sum over edges of what is (edges, heads[, width])."""
    if KIND == 0:
        return tl.sum(x, 0)[:, None]
    else:
        return tl.sum(x, 0)


@triton.jit
def kept(seed, edge, head, item, dropout):
    """(edges, heads) 1 / (1 - p) or 0: Philox on (edge id, 0, head // 4, item), word head % 4."""
    zero = (edge[:, None] * 0 + head[None, :] * 0).to(tl.uint32)
    counter = edge[:, None].to(tl.uint32) + zero
    w0, w1, w2, w3 = tl.philox(seed, counter, zero, (head[None, :] // 4).to(tl.uint32) + zero, zero + item)
    lane = head[None, :] % 4
    word = tl.where(lane == 0, w0, tl.where(lane == 1, w1, tl.where(lane == 2, w2, w3)))
    return or_dropped(to_unit(word), dropout)
