"""Launches of the dense kernels, and the gradients of what scores are made of."""

from typing import Any

import torch
from torch import Tensor

from regard.backends.segment_spans import keys_spans
from regard.core.lowering.kernel_forms import EXPONENTIAL, SIGMOID

from ..common.pair_scores import HELD
from ..common.pair_tables import DOT, LOG2E, TANH, PairTables, in_parts
from ..modifiers.codes import BENDING, CLOSING, decoded
from ..modifiers.held import functions_of, held_of
from ..runtime.fast_launcher import plainly
from ..runtime.launch_replay import alloc, gradient_of, record_op, replayed
from .active_tiles import active_tile_lists
from .arguments import DIFFERENTIABLE, DenseArguments, receiving
from .backward import pull_kernel
from .forward import known_kernel, softmax_kernel
from .held_gradients import modifier_gradients
from .launch_config import (
    bounds_and_strides,
    forward_arguments,
    noise_of,
    or_other,
    rows_shape,
    single_walk,
    sizes_of,
    small_weights_at_a_time,
    tiles_count,
)
from .sampling_kernel import choose_kernel
from .threshold_launch import find_tau


def _contiguous(call: DenseArguments) -> DenseArguments:
    a, b, v = (record_op(Tensor.contiguous, x) for x in call[:3])
    return call._replace(a=a, b=b, v=v)


@replayed
def run(*given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What `dense_op` says, of its arguments."""
    return forward(_contiguous(DenseArguments(*given)))


@gradient_of(run)
def run_back(*given: Any) -> list[Tensor]:
    """What `dense_triton_backward` says, of its arguments."""
    call = _contiguous(DenseArguments(*given[:-5]))
    found = zip(given[:DIFFERENTIABLE], backward(call, *given[-5:]), strict=True)
    return [record_op(_cast, y, x.dtype) for x, y in found if x is not None and y is not None]


def forward(call: DenseArguments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out (g, n, d_v); tau (g, n) fp32; of sparse alignments which tiles hold weights; what the backward asks of rows.

    Of softmax that is tau in base 2, (1, g, n); in fp32, where its rounding would show, (2, g, n): the largest score
    and the reciprocal of the sum relative to it. Of a sparse alignment that trains it is (g, n, d_v), the mean of the
    values weighted by slopes.
    """
    a, align, (g, n, _) = call.a, call.align, call.a.shape
    out = alloc((g, n, call.v.shape[2]), a.device, call.v.dtype)
    tau = alloc((g, n), a.device)
    live, rows = alloc(tiles_count(call), a.device, torch.int8), alloc(rows_shape(call), a.device)
    if not (out.numel() and call.b.shape[1]):
        return out.zero_(), tau.fill_(float("inf")), live, rows.zero_()
    tables = PairTables(call, False, align == EXPONENTIAL and call.v.dtype != torch.float32, call.v.shape[2])
    sizes = sizes_of(call, tables, "forward")
    grid, vectors, marks, numbers = handed = forward_arguments(call, tables, sizes)
    seed, dropped = noise_of(call), call.seed is not None
    more = _modifying(call)
    if align == EXPONENTIAL:
        v = in_parts(call.v) if call.core != DOT and call.v.dtype == torch.float32 else call.v
        (plainly(softmax_kernel) if more else softmax_kernel)[grid](
            *vectors,
            v,
            *marks,
            seed,
            or_other(call.centre, a),
            out,
            tau,
            rows,
            *numbers[:5],
            call.dropout,
            call.narrow * LOG2E,
            *numbers[5:],
            BELL=call.centre is not None,
            DROPPED=dropped,
            PLAIN=call.core == DOT
            and not (sizes["OWNED"] or sizes["BIASED"] == 1 or call.modifiers)
            and call.scale > 0,
            NORMED=rows.shape[0] == 2,
            T=8 if sizes["BLOCK_M"] * sizes["BLOCK_N"] >= 1024 * sizes["num_warps"] else 4,
            **more,
            **sizes,
        )
        return out, tau, live, rows
    lists = find_tau(call, sizes, handed, tau, live, more) if align > SIGMOID else (live, live)
    if more and align == SIGMOID:
        more = {**more, "CLOSING": any(code.family in CLOSING for code in decoded(call.modifiers))}
    (plainly(known_kernel) if more else known_kernel)[grid](
        *vectors,
        call.v,
        *marks,
        seed,
        out,
        tau,
        *lists,
        rows,
        *numbers[:5],
        call.dropout,
        -(call.bias or 0.0),
        *numbers[5:],
        call.power,
        ALIGN=align,
        COUNTED=call.bias is None,
        SMALL=small_weights_at_a_time(call, sizes),
        TRAINS=rows.numel() > 0,
        DROPPED=dropped,
        **more,
        **sizes,
    )
    return out, tau, live, rows


def choose(call: DenseArguments, seed: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The key of each row (g, n) int32, log sum exp of its scores and their entropy, (g, n) fp32."""
    tables, (g, n, _) = PairTables(call, False), call.a.shape
    index = torch.full((g, n), -1, dtype=torch.int32, device=call.a.device)
    tau, entropy = (torch.full((g, n), x, device=index.device) for x in (float("inf"), 0.0))
    if index.numel():
        sizes = sizes_of(call, tables, "forward")
        sizes = {name: size for name, size in sizes.items() if name not in ("DV", "DVP")}
        grid, vectors, marks, numbers = forward_arguments(call, tables, sizes)
        choose_kernel[grid](
            *vectors, *marks, or_other(seed, call.a), index, tau, entropy, *numbers, SAMPLED=seed is not None, **sizes
        )
    return index, tau / LOG2E, entropy / LOG2E


def backward(
    call: DenseArguments,
    out: Tensor,
    tau: Tensor,
    live: Tensor,
    rows: Tensor,
    dout: Tensor,
    chosen: Tensor | None = None,
) -> list[Tensor | None]:
    """Gradients of a, b, v, readout, key_bias, row_bias, centre, sink and what modifiers hold; None where there is
    nothing to receive one.

    chosen (g, n): of a drawn key, what its row takes out of -log p times dout, the gradient of the entropy.
    """
    a, b, v, dout = call.a, call.b, call.v, record_op(Tensor.contiguous, dout)
    (g, n, d), m = a.shape, b.shape[1]
    if not (out.numel() and m):
        return [
            torch.zeros_like(x) if isinstance(x, Tensor) and wanted else None
            for x, wanted in zip(call, receiving(call), strict=False)
        ]
    columns = call.align == EXPONENTIAL and chosen is None and call.v.dtype != torch.float32
    tables = PairTables(call, True, columns, call.v.shape[2])
    programs, parts, reach = single_walk(call, tables) if chosen is None else (0, 1, 0)
    sizes = sizes_of(call, tables, "once" if programs else "backward")
    together = call.core != DOT and call.group > 1  # summed in memory, head by head
    summed = call.core != DOT or call.key_bias is not None or call.row_bias is not None
    many = parts * b.shape[0]
    da = alloc(a.shape, a.device, a.dtype)
    db = alloc((many, *b.shape[1:]), a.device, torch.float32 if together or parts > 1 else b.dtype)
    dv = alloc((many, *v.shape[1:]), a.device, torch.float32 if parts > 1 else v.dtype)
    # A normalised row's ds sum to 0, and are not summed: what fp32 leaves of the sum is error alone.
    bends = any(code.family in BENDING for code in decoded(call.modifiers))
    zero = call.align != SIGMOID and chosen is None and call.sink is None and not bends
    by_row = by_key = moved = reads = scratch = tau  # kernels want a pointer even where they write nothing
    delta, read = chosen, call.core != DOT
    if summed:
        by_row, by_key = alloc((g, n), a.device, zero=zero), alloc((parts * g, m), a.device)
    if call.centre is not None:
        moved = alloc((g, n), a.device)
    if delta is None:
        delta = alloc((g, n), a.device)
    if read:
        reads = alloc((parts, g, -(-(m if programs else n) // sizes["BLOCK_M"]), tables.dp), a.device)
    readout = record_op(_cast, call.readout, torch.float32) if read and call.readout is not None else a
    normed = call.align == EXPONENTIAL and chosen is None and rows.shape[0] == 2
    t, norm = (rows[0], rows[-1]) if call.align == EXPONENTIAL and chosen is None else (tau, tau)
    mean = rows if call.align > SIGMOID else out
    if not mean.numel():  # the forward was told that nothing trains
        mean = forward(call._replace(trains=True))[3]
    totals = others = tau
    if programs:
        totals = alloc((programs, parts, g, reach, tables.dp), a.device, zero=True)
        others = alloc(
            (programs, parts, b.shape[0], sizes["BLOCK_M"] // HELD.value, sizes["BLOCK_N"], tables.dp), a.device
        )
        if call.align != SIGMOID:
            delta = record_op(_row_dots, dout, mean)
    more = {name: x for name, x in _modifying(call, True).items() if name != "SINK"}
    (left, right), scale, strides = bounds_and_strides(call)
    bend, linear = {DOT: (call.scale, 0.0), TANH: (4.0, 0.0)}.get(call.core, (call.bent, call.linear))
    own, keys, seed = tables.own, tables.keys, noise_of(call)
    if read:
        scratch = alloc(
            (g, programs or -(-max(n, m) // sizes["BLOCK_M"]), parts, sizes["BLOCK_M"], sizes["BLOCK_N"]), a.device
        )
    lengths, keep = or_other(call.ranges.lengths, a), or_other(call.ranges.keep, a)
    spans = ((call.low, call.high),) * 2
    if call.low is not None and call.high is not None:
        spans = (call.low, call.high), keys_spans(call.low, call.high, m)
    values = (dout, v)
    if call.core != DOT and v.dtype == torch.float32:
        values = in_parts(dout), in_parts(v)
    for side in (1,) if programs else (0, 1):
        x, y = (a, b)[side], (b, a)[side]
        if side == 1 and call.core == DOT:
            sizes = sizes_of(call, tables, "keys")
        both = [pair if side == 0 else pair[::-1] for pair in (tables.across, tables.along, values)]
        lines = tables.strides if side == 0 else tables.strides[::-1]
        sizes |= {"OWNED": (own, keys)[side] is not None, "BIASED": tables.biased if side == 0 else own is not None}
        lists = active_tile_lists(call, live, (left, right), side == 1)
        blocks = -(-x.shape[1] // sizes["BLOCK_M"])
        for first in range(0, blocks, programs or blocks):
            (plainly(pull_kernel) if more else pull_kernel)[
                min(programs or blocks, blocks - first) * parts, x.shape[0]
            ](
                x,
                y,
                *both[0],
                *both[1],
                tables.readout,
                readout,
                tables.modes,
                or_other((own, keys)[side], a),
                or_other((tables.bias, own)[side], a),
                *both[2],
                t,
                delta,
                norm,
                mean,
                *lists,
                lengths,
                keep,
                *(or_other(x, a) for x in spans[side]),
                seed,
                or_other(call.centre, a),
                scratch,
                others,
                totals,
                (da, db)[side],
                dv,
                (by_row, by_key)[side],
                reads,
                moved,
                first,
                n,
                m,
                parts,
                reach,
                left,
                right,
                scale,
                call.narrow * LOG2E,
                call.dropout,
                bend,
                linear,
                *strides,
                *lines,
                call.power,
                BELL=call.centre is not None,
                CHOSEN=chosen is not None,
                ALIGN=call.align,
                KEYS=side == 1,
                READ=read and (side == 0 or programs > 0),
                BOTH=programs > 0,
                GROUPED=call.group > 1,
                DROPPED=call.seed is not None,
                NORMED=normed,
                SUMMED=summed and (side == 1 or not zero),
                **more,
                **sizes,
            )
    if programs:
        da = record_op(_query_gradient, totals, readout, n, bend, a.dtype)
    if parts > 1:
        db, dv, by_key = (
            record_op(_sum_of_parts, db, parts),
            record_op(_sum_of_parts, dv, parts),
            record_op(_sum_of_parts, by_key, parts),
        )
    dreadout = dkeys = dcentre = None
    if call.core == TANH:
        dreadout = record_op(_readout_gradient, reads, d, 2.0)
    elif read:
        sums = record_op(_weighted_vector_sums, a, b, by_row, by_key, not (zero or programs))
        dreadout = record_op(_readout_gradient, reads, d, call.bent, call.linear, sums)
    if call.key_bias is not None:
        dkeys = by_key if call.group == 1 else record_op(_sum_of_groups, by_key, call.group)
    if call.centre is not None:
        dcentre = record_op(torch.mul, moved, 2 * call.narrow)
    drow = None if call.row_bias is None else by_row
    return [da, db, dv, dreadout, dkeys, drow, dcentre, *modifier_gradients(call, tables, tau, rows, delta, dout)]


def _modifying(call: DenseArguments, slopes: bool = False) -> dict[str, Any]:
    """What kernels are given by name of modifiers and a sink; {} where there is neither."""
    more: dict[str, Any] = {} if call.sink is None else {"SINK": call.sink.contiguous()}
    if call.modifiers:
        values, bends = functions_of(call.modifiers)
        more |= {
            "MODIFIERS": held_of(call.modifiers, call.held, call.bounds, call.a.shape[1], call.b.shape[1]),
            "MODIFY": values,
        }
        more |= {"SLOPES": bends} if slopes else {}
    return more


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype).contiguous()


def _row_dots(x: Tensor, y: Tensor) -> Tensor:
    return (x.float() * y).sum(-1)


def _query_gradient(totals: Tensor, readout: Tensor, n: int, bend: float, dtype: torch.dtype) -> Tensor:
    """What queries receive, from the tables of all programs (programs, parts, g, reach, padded width)."""
    total = totals.sum(0).transpose(0, 1).flatten(1, 2)[:, :n, : readout.shape[1]]
    return (total * (bend * readout)[:, None]).to(dtype)


def _sum_of_parts(x: Tensor, parts: int) -> Tensor:
    """What the parts of the other side gave, together."""
    return x.unflatten(0, (parts, -1)).sum(0)


def _sum_of_groups(x: Tensor, group: int) -> Tensor:
    """Of the heads that share keys together, from (g, m)."""
    return x.unflatten(0, (-1, group)).sum(1)


def _readout_gradient(reads: Tensor, d: int, bent: float, linear: float = 0.0, sums: Tensor | None = None) -> Tensor:
    """The gradient of a readout (g, d), from what blocks read (parts, g, blocks, padded width)."""
    total = bent * reads.sum((0, 2))[:, :d]
    return total if sums is None else total + linear * sums


def _weighted_vector_sums(a: Tensor, b: Tensor, by_row: Tensor, by_key: Tensor, rows_too: bool) -> Tensor:
    """Vectors weighted by the sums of ds, for each head of queries: (g, d)."""
    shared = by_key.view(b.shape[0], -1, b.shape[1])  # of each head that shares a key
    sums = torch.einsum("kmd,khm->khd", b.float(), shared).flatten(0, 1)
    return sums + torch.einsum("gnd,gn->gd", a.float(), by_row) if rows_too else sums
