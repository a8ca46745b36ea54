"""Tables of pairs: what kernels read instead of the vectors of an additive score, made by two launches.

The first finds the largest |x| of each head, from which the second reads, on the device, how tanh is computed there
(MODE in `pair_scores`). Tables are fp32 and padded to whole blocks of PAD places, so that reading them needs no
mask. `across` (blocks, width, PAD) serves scores, `along` (places, dp) serves gradients.

Of tanh, sum_d r_d tanh(z_d) = sum_d r_d - 2 sum_d r_d / (1 + exp(2 z_d)), z = x + y. A fraction is the reciprocal of
(1 + exp(2x) exp(2y)) share_d with share_d = 2^-LIFT largest / r_d, and the share is put into the queries' table. LIFT
keeps the product of four such numbers finite and above 0. A readout less than 2^-FADED of the largest counts for 0: its
fraction is a constant, which is taken out of the row's.
"""

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..runtime.fast_launcher import launched
from ..runtime.launch_replay import alloc, record_op
from .key_bias import SMALLEST, in_columns, in_unit
from .pair_scores import PAD

if TYPE_CHECKING:
    from ..dense.arguments import DenseArguments
    from ..maps.launch import MapTensors

DOT, TANH, LEAKY, ABS = range(4)
LOG2E = 1.4426950408889634
PARTS = 32  # of a head, whose largest numbers are found apart
NEAR, FAR = tl.constexpr(14.0), tl.constexpr(43.0)  # bounds of |x| + |y|, and of either
LIFT, LEAST = tl.constexpr(2.0**-31), tl.constexpr(2.0**-22)  # 2^-FADED
TWICE = tl.constexpr(2 * LOG2E)
# lengths, for which nothing is compiled anew
FOLLOWING = ("n", "m", "stride_x", "stride_y", "blocks", "heads", "size", "size_a", "size_b")


@triton.jit
def _largest(base, size, part, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    top = tl.zeros([BLOCK], tl.float32)
    for start in range(part * BLOCK, size, PARTS * BLOCK):
        at = start + tl.arange(0, BLOCK)
        top = tl.maximum(top, tl.abs(tl.load(base + at, mask=at < size, other=0.0).to(tl.float32)))
    return tl.max(top, 0)


@launched
@triton.jit(do_not_specialize=FOLLOWING)
def largest_kernel(A, B, TOPS, size_a, size_b, heads, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """TOPS (heads of queries, then of keys; PARTS): the largest |x| of each part of a head."""
    head, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if head < heads:
        top = _largest(A + head * size_a, size_a, part, PARTS, BLOCK)
    else:
        top = _largest(B + (head - heads) * size_b, size_b, part, PARTS, BLOCK)
    tl.store(TOPS + head * PARTS + part, top)


@triton.jit
def _mode_of(TOPS, shared, group, heads, PARTS: tl.constexpr):
    """Heads of queries that share keys share their mode."""
    part = tl.arange(0, PARTS)
    top = tl.zeros([PARTS], tl.float32)
    for member in range(group):
        top = tl.maximum(top, tl.load(TOPS + (shared * group + member) * PARTS + part))
    x, y = tl.max(top, 0), tl.max(tl.load(TOPS + (heads + shared) * PARTS + part), 0)
    return tl.where(x + y < NEAR, 0, tl.where(tl.maximum(x, y) < FAR, 1, 2))


@triton.jit
def _exponentials(x, mode):
    """exp(2x), or 2x in base 2 where sums are not products of these."""
    exponent = x * TWICE
    return tl.where(mode == 2, exponent, tl.exp2(exponent))


@triton.jit
def _shares(r, d, WIDTH: tl.constexpr):
    """Of tanh: which readouts count, what their fractions are divided by, the factor of all, the constant of a row."""
    top = tl.max(tl.abs(r), 0)
    counts = tl.abs(r) >= tl.where(top > 0, top * LEAST, 1.0)
    share = LIFT / tl.where(counts, r / tl.where(top > 0, top, 1.0), LEAST)
    constant = tl.sum(tl.where(counts, r, tl.where(d < WIDTH, 2 * LEAST * top, 0.0)), 0)
    return counts, share, -2 * LIFT * top, constant


@triton.jit
def _put_across(ACROSS, x, i0, WIDTH: tl.constexpr, DP: tl.constexpr, PLACES: tl.constexpr):
    place, d = tl.arange(0, PLACES)[:, None], tl.arange(0, DP)[None, :]
    at = ACROSS + (i0 // PAD).to(tl.int64) * ((WIDTH - 1) * PAD) + i0
    tl.store(at + d * PAD + place, x, mask=(d < WIDTH) & (place >= 0))


@triton.jit
def _vectors(base, i0, count, D: tl.constexpr, DP: tl.constexpr, PLACES: tl.constexpr):
    i, d = (i0 + tl.arange(0, PLACES))[:, None], tl.arange(0, DP)[None, :]
    real = (i < count) & (d < D)
    return tl.load(base + i.to(tl.int64) * D + d, mask=real, other=0.0).to(tl.float32), real


@launched
@triton.jit(do_not_specialize=FOLLOWING)
def tables_kernel(
    A,
    B,
    READOUT,
    ROW_BIAS,
    KEY_BIAS,
    TOPS,
    MODES,
    R,
    XT,
    YT,
    XL,
    YL,
    OWN,
    KEYS,
    n,
    m,
    stride_x,
    stride_y,
    blocks,
    heads,
    group,
    linear,
    bent,
    unit,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWED: tl.constexpr,
    KEYED: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    BACKWARD: tl.constexpr,
    PLACES: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Some places of one head of queries or, after these, of keys."""
    program = tl.program_id(0)
    head, i0 = (program // blocks).to(tl.int64), program % blocks * PLACES
    i, d = i0 + tl.arange(0, PLACES), tl.arange(0, DP)
    if head < heads:
        r = tl.load(READOUT + head * D + d, mask=d < D, other=0.0).to(tl.float32)
        x, real = _vectors(A + head * n * D, i0, n, D, DP, PLACES)
        own = tl.zeros([PLACES], tl.float32)
        if CORE == 1:
            mode = _mode_of(TOPS, head // group, group, heads, PARTS)
            counts, share, factor, constant = _shares(r, d, WIDTH)
            x = tl.where(real, _exponentials(x, mode), 0.0)
            own += constant
        else:
            counts, share, factor = d < D, r * bent, 1.0
            if linear != 0:
                own += tl.sum(x * (r * linear)[None, :], 1)
        if i0 < stride_x:
            if BACKWARD:
                tl.store(XL + (head * stride_x + i[:, None]) * DP + d[None, :], x)
            if CORE == 1:
                if mode == 0:
                    x *= share[None, :]
                x = tl.where(counts[None, :], x, tl.where(mode == 2, -float("inf"), 0.0))
            _put_across(XT + head * WIDTH * stride_x, x, i0, WIDTH, DP, PLACES)
        if OWNED:
            if ROWED:
                own += tl.load(ROW_BIAS + head * n + i, mask=i < n, other=0.0).to(tl.float32)
            tl.store(OWN + head * n + i, own * unit, mask=i < n)
        if i0 == 0:
            tl.store(R + head * (WIDTH + 1) + d, share, mask=d < WIDTH)
            tl.store(R + head * (WIDTH + 1) + WIDTH + d, d * 0 + factor * unit, mask=d < 1)
    else:
        shared = head - heads
        y, real = _vectors(B + shared * m * D, i0, m, D, DP, PLACES)
        if BIASED:
            bias = tl.zeros([PLACES], tl.float32)
            if KEYED:
                bias += tl.load(KEY_BIAS + shared * m + i, mask=i < m, other=0.0).to(tl.float32)
            for member in range(group):
                g = shared * group + member
                more = bias
                if CORE > 1:
                    r = tl.load(READOUT + g * D + d, mask=d < D, other=0.0).to(tl.float32)
                    more += tl.sum(y * (r * linear)[None, :], 1)
                tl.store(KEYS + g * m + i, more * unit, mask=i < m)
        if CORE == 1:
            mode = _mode_of(TOPS, shared, group, heads, PARTS)
            y = tl.where(real, _exponentials(y, mode), 0.0)
            if i0 == 0:
                tl.store(MODES + shared, mode)
        if i0 < stride_y:
            if BACKWARD:
                tl.store(YL + (shared * stride_y + i[:, None]) * DP + d[None, :], y)
            _put_across(YT + shared * WIDTH * stride_y, y, i0, WIDTH, DP, PLACES)


@launched
@triton.jit(do_not_specialize=FOLLOWING)
def parts_kernel(V, PARTS, size, BLOCK: tl.constexpr):
    """PARTS (3, size): bfloat16 numbers whose sum is V."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = at < size
    rest = tl.load(V + at, mask=real, other=0.0)
    for _ in range(3):
        some = rest.to(tl.bfloat16)
        tl.store(PARTS + at, some, mask=real)
        rest -= some.to(tl.float32)
        at += size


def in_parts(v: Tensor) -> Tensor:
    """fp32 as three tables of bfloat16, of which tensor cores make products as exact as fp32."""
    parts = alloc((3, *v.shape), v.device, torch.bfloat16)
    if v.numel():
        parts_kernel[(triton.cdiv(v.numel(), 2048),)](v, parts, v.numel(), BLOCK=2048)
    return parts


class PairTables:
    """What kernels read besides the tensors of a call. columns: products may add the bias of keys. d_v: the width of
    values that the same kernel averages."""

    def __init__(self, call: "DenseArguments | MapTensors", backward: bool, columns: bool = False, d_v: int = 0):
        a, b = call.a, call.b
        d = a.shape[2]
        self.width = max(4, -(-d // 4) * 4)
        self.dp = padded(d, least_width(call.core, a.dtype, d, d_v) if call.core == DOT else 16)
        self.modes = self.readout = a
        self.along: tuple[Tensor, Tensor] = (a, b)
        self.across: tuple[Tensor, Tensor] = (a, b)
        self.strides = 0, 0  # of tables that a dot has not: kernels are not compiled for its lengths
        self.own: Tensor | None = None
        self.keys: Tensor | None = None
        self.columns: Tensor | None = None
        if call.core != DOT:
            self._pairs(call, backward)
            return
        if call.row_bias is not None:
            self.own = in_unit(call.row_bias, call.unit, 1)
        if call.key_bias is None:
            return
        if columns and call.scale > SMALLEST:
            self.columns = in_columns(call.key_bias, 1 / call.scale)
        if backward or self.columns is None:
            self.keys = in_unit(call.key_bias, call.unit, call.group)

    @property
    def biased(self) -> int:
        """How keys are biased, seen from queries: 0 not, 1 by numbers, 2 by columns."""
        return 2 if self.columns is not None else int(self.keys is not None)

    @property
    def bias(self) -> Tensor | None:
        """That bias."""
        return self.keys if self.columns is None else self.columns

    def _pairs(self, call: "DenseArguments | MapTensors", backward: bool) -> None:
        a, b = call.a, call.b
        (g, n, d), (shared, m, _) = a.shape, b.shape

        def made(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return alloc(shape, a.device, dtype)

        x, y = self.strides = tuple(-(-places // PAD.value) * PAD.value for places in (n, m))
        self.across = made(g, self.width * x), made(shared, self.width * y)
        if backward:
            self.along = made(g, x, self.dp), made(shared, y, self.dp)
        self.readout, self.modes = made(g, self.width + 1), made(shared, dtype=torch.int32)
        sloped = call.core != TANH and call.linear != 0
        if call.row_bias is not None or call.core == TANH or sloped:
            self.own = made(g, n)
        if call.key_bias is not None or sloped:
            self.keys = made(g, m)
        if not g:
            return
        assert call.readout is not None
        bounds = [None if z is None else record_op(Tensor.contiguous, z) for z in (call.row_bias, call.key_bias)]
        marks = [a if z is None else z for z in bounds]
        tops = made(g + shared, PARTS) if call.core == TANH else a
        if call.core == TANH:
            largest_kernel[g + shared, PARTS](a, b, tops, n * d, m * d, g, PARTS=PARTS, BLOCK=2048)
        places = max(16, min(PAD.value, 4096 // self.dp))
        sizes: dict[str, Any] = {"CORE": call.core, "D": d, "DP": self.dp, "WIDTH": self.width, "PLACES": places}
        blocks = max(1, max(x, y) // places)
        tables_kernel[((g + shared) * blocks,)](
            a,
            b,
            record_op(Tensor.contiguous, call.readout),
            *marks,
            tops,
            self.modes,
            self.readout,
            *self.across,
            *self.along,
            a if self.own is None else self.own,
            a if self.keys is None else self.keys,
            n,
            m,
            x,
            y,
            blocks,
            g,
            call.group,
            float(call.linear),
            float(call.bent),
            call.unit,
            ROWED=bounds[0] is not None,
            KEYED=bounds[1] is not None,
            OWNED=self.own is not None,
            BIASED=self.keys is not None,
            BACKWARD=backward,
            PARTS=PARTS,
            **sizes,
        )


def padded(width: int, least: int = 16) -> int:
    """A power of two, and at least what a tensor core takes."""
    return max(least, 1 << (width - 1).bit_length())


def least_width(core: int, dtype: torch.dtype, *widths: int) -> int:
    """How wide tiles of vectors and values are at least, where heads and values are of these widths.

    In 16 bits 16. Products of fp32 have 32; of a dot 64, as soon as heads or values are over 32: no product of a kernel
    is narrower than another on its way. Hopper's assembler in CUDA 12.8 (`ptxas` 12.8.93, which Triton 3.6 brings)
    loses addresses of tiles in shared memory where products of 16 or 32 columns stand beside wider ones: it takes a
    uniform register that holds the address of a later `wgmma` for something else. Such a kernel reads what lies
    elsewhere, or ends with an illegal memory access; other versions have done so in other kernels.
    """
    if dtype != torch.float32:
        return 16
    return min(64, padded(max(widths), 32)) if core == DOT else 32
