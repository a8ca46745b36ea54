"""Launches of the dense kernels: tables for pairs, sizes of tiles, and the gradients of what scores are made of."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from .ranges import Ranges, counts
from .spans import keys_spans
from .triton_choose_kernel import choose_kernel
from .triton_dense import side_of
from .triton_dense_backward import pull_kernel
from .triton_dense_forward import known_kernel, softmax_kernel
from .triton_threshold import threshold_kernel

LOG2E = 1.4426950408889634
DOT, TANH, LEAKY, ABS = range(4)
SOFTMAX, SIGMOID, SPARSEMAX, ENTMAX15, ENTMAX = range(5)
PAD = 128  # places of a table of pairs are padded to whole tiles
STEPS = 40  # of Newton's at most
ROOM = 128  # scores that a row of a sparse alignment gathers; a larger support takes several walks


@dataclass(frozen=True, eq=False)
class Call:
    """One call over g = batch x heads of queries: a (g, n, d), all contiguous.

    `group` heads of queries share one of keys: b (g / group, m, d), v (g / group, m, d_v).
    """

    a: Tensor
    b: Tensor
    v: Tensor
    readout: Tensor | None  # (g, d), of a pair
    key_bias: Tensor | None  # (g / group, m) fp32
    row_bias: Tensor | None  # (g, n) fp32
    ranges: Ranges
    heads: int
    core: int
    scale: float  # of a dot
    linear: float  # pairs: act(x) = linear x + bent |x|
    bent: float
    align: int
    alpha: float
    bias: float | None  # of a sigmoid
    low: Tensor | None  # (g, n) int32: the first key of each row, and the one after the last
    high: Tensor | None
    centre: Tensor | None  # (g, n) fp32: of a bell over the keys, 1 / (2 width^2) = narrow
    narrow: float
    seed: Tensor | None = None  # of dropout
    dropout: float = 0.0

    @property
    def group(self) -> int:
        return self.a.shape[0] // max(1, self.b.shape[0]) or 1

    @property
    def unit(self) -> float:
        """Scores of a softmax and a sigmoid are kept in base 2."""
        return LOG2E if self.align <= SIGMOID else 1.0

    @property
    def power(self) -> float:
        return 1 / (self.alpha - 1) if self.align > SIGMOID else 1.0


class Tables:
    """What kernels read besides the tensors of a call."""

    def __init__(self, call: Call, backward: bool):
        a, b = call.a, call.b
        g, n, d = a.shape
        m = b.shape[1]
        self.width = d + d % 2
        self.dp = max(16, triton.next_power_of_2(d))
        self.modes = self.readout = a
        self.along: tuple[Tensor, Tensor] = (a, b)
        self.across: tuple[Tensor, Tensor] = (a, b)
        self.strides = n, m
        own = None if call.row_bias is None else call.row_bias.float()
        keys = None if call.key_bias is None else call.key_bias.float().repeat_interleave(call.group, 0)
        if call.core != DOT:
            assert call.readout is not None
            r = call.readout.float()
            x, y = a.float(), b.float()
            if call.core == TANH:
                top = [z.abs().amax((1, 2)) if z.shape[1] else z.new_zeros(z.shape[0]) for z in (x, y)]
                top[0] = top[0].view(-1, call.group).amax(1)  # heads that share keys share their form
                near, fair = top[0] + top[1] < 21, torch.maximum(*top) < 43
                self.modes = torch.where(near, 0, torch.where(fair, 1, 2)).int()
                shared = near | fair
                x, y = exponentials(x, shared.repeat_interleave(call.group)), exponentials(y, shared)
                constant = r.sum(-1)[:, None].expand(g, n)
                own = constant if own is None else own + constant
                r = -2 * r
            else:
                if call.linear:
                    by_key = (r * call.linear).view(-1, call.group, d)
                    left = torch.einsum("gnd,gd->gn", x, r * call.linear)
                    right = torch.einsum("kmd,khd->khm", y, by_key).flatten(0, 1)
                    own, keys = (new if old is None else old + new for old, new in ((own, left), (keys, right)))
                r = r * call.bent
            self.readout = torch.nn.functional.pad(r * call.unit, (0, self.width - d)).contiguous()
            self.strides = tuple(-(-z.shape[1] // PAD) * PAD for z in (x, y))  # type: ignore[assignment]
            sides = list(zip((x, y), self.strides, strict=True))
            self.across = tuple(_padded(z.mT, self.width, size) for z, size in sides)  # type: ignore[assignment]
            if backward:
                self.along = tuple(_padded(z, size, self.dp) for z, size in sides)  # type: ignore[assignment]
        self.own = None if own is None else (own * call.unit).contiguous()
        self.keys = None if keys is None else (keys * call.unit).contiguous()


def exponentials(x: Tensor, products: Tensor) -> Tensor:
    """exp(2x), or 2x in base 2 for heads whose sums are not products of these."""
    exponent = x * (2 * LOG2E)
    return torch.where(products[:, None, None], exponent.exp2(), exponent)


def _padded(x: Tensor, rows: int, columns: int) -> Tensor:
    return torch.nn.functional.pad(x, (0, columns - x.shape[2], 0, rows - x.shape[1])).contiguous()


def sizes_of(call: Call, tables: Tables, backward: bool) -> dict[str, Any]:
    """What kernels are compiled for. fp32 is three parts of 8 bits, six products: as exact as fp32, on tensor cores."""
    d_v = call.v.shape[2]
    interpreted = triton.knobs.runtime.interpret
    return {
        "CORE": call.core, "D": call.a.shape[2], "DP": tables.dp, "WIDTH": tables.width,
        **_tiles(call, backward), "OWNED": tables.own is not None, "BIASED": tables.keys is not None,
        "PADDED": call.ranges.lengths is not None, "KEPT": call.ranges.keep is not None,
        "SPANNED": call.low is not None,
        "PRECISION": "bf16x6" if call.v.dtype == torch.float32 else "ieee", "INTERPRETED": interpreted,
    } | ({"DVW": d_v} if backward else {"DV": d_v}) | {"DVP": max(16, triton.next_power_of_2(d_v))}  # fmt: skip


def _tiles(call: Call, backward: bool) -> dict[str, int]:
    """Rows and columns of a tile, warps, stages, registers of a thread: measured on an H200."""
    full, sparse = call.v.dtype == torch.float32, call.align > SIGMOID
    width, side = max(call.a.shape[2], call.v.shape[2]), side_of(call.a, call.v)
    wide = width > 64 or full
    if side == 32:
        return {"BM": side, "BN": side, "num_warps": 4, "num_stages": 1}
    if call.core == DOT:
        rows = 64 if backward or wide or sparse else 128
        return {"BM": rows, "BN": 64, "num_warps": 4, "num_stages": 2 if wide else 3}
    if sparse:  # both sides of the backward share the list of tiles that hold weights, so tiles are square
        return {"BM": 64, "BN": 64, "num_warps": 8, "num_stages": 2, "maxnreg": 128}
    if backward:
        return {"BM": 32, "BN": 64, "num_warps": 4, "num_stages": 2, "maxnreg": 128}
    if full:
        return {"BM": 32, "BN": 128, "num_warps": 4, "num_stages": 2}
    return {"BM": 64, "BN": 128, "num_warps": 8, "num_stages": 2, "maxnreg": 128}


def _where(call: Call) -> tuple[tuple[int, ...], float, tuple[int, ...]]:
    """left and right; the scale; heads, how many share keys, and the strides of a key mask."""
    ranges, n, m = call.ranges, call.a.shape[1], call.b.shape[1]
    left, right = (max(-(1 << 30), min(x, n + m)) for x in (ranges.left, ranges.right))
    keep = ranges.keep
    keep_b = 0 if keep is None or keep.shape[0] == 1 else keep.stride(0)
    keep_h = 0 if keep is None or keep.shape[1] == 1 else keep.stride(1)
    return (left, right), call.scale * call.unit, (call.heads, call.group, keep_b, keep_h)


def forward(call: Call) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out (g, n, d_v); tau (g, n) fp32; which tiles hold weights, for sparse alignments; of softmax (g, n) the sum of
    exp(s - tau), which the rounding of tau leaves next to 1."""
    tables, (g, n, _), m = Tables(call, False), call.a.shape, call.b.shape[1]
    sizes = sizes_of(call, tables, False)
    out = call.v.new_empty((g, n, call.v.shape[2]))
    tau = torch.empty((g, n), dtype=torch.float32, device=out.device)
    live = torch.zeros(live_shape(call) if call.align > SIGMOID else 0, dtype=torch.int8, device=out.device)
    norm = torch.empty((g, n) if call.align == SOFTMAX else 0, dtype=torch.float32, device=out.device)
    if not out.numel():
        return out, tau.fill_(float("inf")), live, norm.fill_(1.0)
    grid, vectors, marks, numbers = given(call, tables, sizes)
    a, seed = call.a, noise_of(call)
    dropped = {"DROPPED": call.seed is not None}
    if call.align == SOFTMAX:
        softmax_kernel[grid](
            *vectors, call.v, *marks, seed, or_other(call.centre, a), out, tau, norm, *numbers[:5], call.dropout,
            call.narrow * LOG2E, *numbers[5:], BELL=call.centre is not None, **dropped, **sizes,
        )  # fmt: skip
        found = tau / LOG2E
        again = torch.where(found < float("inf"), tau - found * LOG2E, 0.0)  # the backward reads it in base 2 again
        return out, found, live, norm.mul_(again.exp2())
    if call.align == SIGMOID:
        seen = counts(call.ranges, g // call.heads, call.heads, n, m, a.device, call.low, call.high).reshape(g, n)
        tau = seen.clamp_min(1).float().log() if call.bias is None else torch.full_like(tau, -call.bias)
        tau = tau.masked_fill_(seen == 0, float("inf"))
    else:
        some = {name: size for name, size in sizes.items() if name not in ("DV", "DVP")}
        rooms = rooms_of(g, grid[0] * sizes["BM"], ROOM, a.device)
        threshold_kernel[grid](*vectors, *marks, tau, *rooms, *numbers, call.power, ALIGN=call.align, STEPS=STEPS,
                               ROOM=ROOM, FEW=16, **some)  # fmt: skip
    known_kernel[grid](
        *vectors, call.v, *marks, seed, out, tau * call.unit, live, *numbers[:5], call.dropout, *numbers[5:],
        call.power, ALIGN=call.align, **dropped, **sizes,
    )  # fmt: skip
    return out, tau, live, norm


def rooms_of(g: int, rows: int, room: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Room for scores of each row, how many it holds, and a bound."""
    made = torch.empty((g, rows, room), dtype=torch.float32, device=device)
    return made, torch.empty((g, rows), dtype=torch.int32, device=device), made.new_empty((g, rows))


def noise_of(call: Call) -> Tensor:
    """The seed of dropout's stream, where there is one."""
    return call.a if call.seed is None else call.seed + 1


def given(call: Call, tables: Tables, sizes: dict[str, Any]) -> tuple[Any, ...]:
    """Grid, vectors, marks and numbers of a forward kernel."""
    a, (g, n, _), m = call.a, call.a.shape, call.b.shape[1]
    (left, right), scale, strides = _where(call)
    bounds = (tables.own, tables.keys, call.ranges.lengths, call.ranges.keep, call.low, call.high)
    marks = (tables.readout, tables.modes, *(or_other(x, a) for x in bounds))
    numbers = (n, m, left, right, scale, *strides, *tables.strides)
    return (triton.cdiv(n, sizes["BM"]), g), (a, call.b, *tables.across), marks, numbers


def choose(call: Call, seed: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The key of each row (g, n) int32, log sum exp of its scores and their entropy, (g, n) fp32."""
    tables, (g, n, _) = Tables(call, False), call.a.shape
    index = torch.full((g, n), -1, dtype=torch.int32, device=call.a.device)
    tau, entropy = (torch.full((g, n), x, device=index.device) for x in (float("inf"), 0.0))
    if index.numel():
        sizes = sizes_of(call, tables, False)
        sizes = {name: size for name, size in sizes.items() if name not in ("DV", "DVP")}
        grid, vectors, marks, numbers = given(call, tables, sizes)
        choose_kernel[grid](
            *vectors, *marks, or_other(seed, call.a), index, tau, entropy, *numbers, SAMPLED=seed is not None, **sizes
        )
    return index, tau / LOG2E, entropy / LOG2E


def live_shape(call: Call) -> tuple[int, int, int]:
    tiles = _tiles(call, False)
    return call.a.shape[0], -(-call.a.shape[1] // tiles["BM"]), -(-call.b.shape[1] // tiles["BN"])


def backward(
    call: Call, out: Tensor, tau: Tensor, live: Tensor, norm: Tensor, dout: Tensor, chosen: Tensor | None = None
) -> list[Tensor | None]:
    """Gradients of a, b, v, readout, key_bias, row_bias and centre.

    chosen (g, n): of a drawn key, what its row takes out of -log p times dout, the gradient of the entropy.
    """
    tables, (g, n, d), m = Tables(call, True), call.a.shape, call.b.shape[1]
    sizes = sizes_of(call, tables, True)
    a, b, v, dout = call.a, call.b, call.v, dout.contiguous()
    summed = call.core != DOT and call.group > 1  # in memory, head by head
    da, dv = torch.zeros_like(a), torch.zeros_like(v)
    db = torch.zeros_like(b, dtype=torch.float32 if summed else b.dtype)
    rows, columns = (torch.zeros((g, places), dtype=torch.float32, device=a.device) for places in (n, m))
    moved = torch.zeros_like(rows)
    read = call.core != DOT
    blocks = triton.cdiv(n, sizes["BM"])
    reads = torch.zeros((g, blocks, tables.dp) if read else 0, dtype=torch.float32, device=a.device)
    readout = call.readout.float().contiguous() if read and call.readout is not None else a
    if a.numel() and b.numel() and v.numel():
        tau = tau * call.unit
        delta = chosen
        if delta is None:
            delta = (dout.float() * out.float()).sum(-1) if call.align == SOFTMAX else torch.zeros_like(tau)
        whole = norm.reciprocal() if norm.numel() else tau
        (left, right), scale, strides = _where(call)
        bend, linear = {DOT: (call.scale, 0.0), TANH: (4.0, 0.0)}.get(call.core, (call.bent, call.linear))
        own, keys, seed = tables.own, tables.keys, noise_of(call)
        scratch = torch.empty(
            (g if read else 0, triton.cdiv(max(n, m), sizes["BM"]), sizes["BM"], sizes["BN"]),
            dtype=torch.float32, device=a.device,
        )  # fmt: skip
        lengths, keep = or_other(call.ranges.lengths, a), or_other(call.ranges.keep, a)
        spans = ((call.low, call.high),) * 2
        if call.low is not None and call.high is not None:
            spans = (call.low, call.high), keys_spans(call.low, call.high, m)
        for side in (0, 1):
            x, y = (a, b)[side], (b, a)[side]
            both = [pair if side == 0 else pair[::-1] for pair in (tables.across, tables.along, (dout, v))]
            lines = tables.strides if side == 0 else tables.strides[::-1]
            sizes |= {"OWNED": (own, keys)[side] is not None, "BIASED": (keys, own)[side] is not None}
            pull_kernel[(triton.cdiv(x.shape[1], sizes["BM"]), x.shape[0])](
                x, y, *both[0], *both[1], tables.readout, readout, tables.modes,
                or_other((own, keys)[side], a), or_other((keys, own)[side], a), *both[2], tau, delta, whole, live,
                lengths, keep, *(or_other(x, a) for x in spans[side]), seed, or_other(call.centre, a), scratch, (da,
                db)[side], dv, (rows, columns)[side], reads, moved, n, m, left, right, scale, call.narrow * LOG2E,
                call.dropout, bend, linear, *strides, *lines, call.power, BELL=call.centre is not None,
                CHOSEN=chosen is not None, ALIGN=call.align, KEYS=side == 1, READ=read and side == 0,
                GROUPED=call.group > 1, DROPPED=call.seed is not None, NORMED=norm.numel() > 0, **sizes,
            )  # fmt: skip
    by_key = columns.view(b.shape[0], call.group, m)  # of each head that shares a key
    dreadout = None
    if read:
        assert call.readout is not None
        total = reads.sum(1)[:, :d]
        if call.core == TANH:
            dreadout = 2 * total
        else:
            sums = torch.einsum("gnd,gn->gd", a.float(), rows)
            sums += torch.einsum("kmd,khm->khd", b.float(), by_key).flatten(0, 1)
            dreadout = call.bent * total + call.linear * sums
        dreadout = dreadout.to(call.readout.dtype)
    return [da, db.to(b.dtype), dv, dreadout, by_key.sum(1), rows, 2 * call.narrow * moved]


def or_other(x: Tensor | None, other: Tensor) -> Tensor:
    """A kernel wants a pointer even where it reads nothing."""
    return other if x is None else x
