"""Launches of the kernels that keep a row's k best keys."""

import torch
import triton
from torch import Tensor

from ..common.pair_tables import DOT, PairTables, padded
from .arguments import TopkArguments
from .launch_config import forward_arguments, sizes_of
from .threshold_launch import row_buffers
from .topk_kernels import average_kernel, key_kernel, row_kernel, select_kernel

ROWS, ENTRIES = 16, 32  # of a program that gathers


def best(given: TopkArguments) -> tuple[Tensor, Tensor]:
    """A row's k largest scores (g, n, k) fp32, -inf where it has fewer keys, and the keys, -1 there."""
    a, k = given.a, given.k
    g, n, _ = a.shape
    values = torch.full((g, n, k), -float("inf"), device=a.device)
    if not values.numel():
        return values, values.int()
    call = given.scoring()
    tables = PairTables(call, False)
    sizes = {name: size for name, size in sizes_of(call, tables, "forward").items() if name not in ("DV", "DVP")}
    sizes["num_warps"] = 8  # buffers take registers beside the scores
    grid, vectors, marks, numbers = forward_arguments(call, tables, sizes)
    size = triton.next_power_of_2(k + sizes["BLOCK_N"])
    rows = grid[0] * sizes["BLOCK_M"]
    buffers, counts, bounds = row_buffers(g, rows, size, a.device)
    places = torch.empty_like(buffers, dtype=torch.int32)
    select_kernel[grid](
        *vectors, *marks, buffers, places, counts, bounds, *numbers, k, BUFFER=size, FEW=512 // size, **sizes
    )
    there = torch.arange(k, device=a.device) < counts[:, :n, None]
    found = buffers[:, :n, :k]
    found = found.masked_fill(found == float("inf"), float("nan"))  # as which the kernel sorts what is no number
    return torch.where(there, found, values), torch.where(there, places[:, :n, :k], -1)


def averaged(w: Tensor, index: Tensor, v: Tensor) -> Tensor:
    g, n, k = index.shape
    out = v.new_zeros((g, n, v.shape[2]))
    if out.numel() and k:
        average_kernel[(triton.cdiv(n, ROWS), g)](
            w.contiguous(),
            index,
            v.contiguous(),
            out,
            n,
            v.shape[1],
            k,
            g // v.shape[0],
            DV=v.shape[2],
            DVP=padded(v.shape[2]),
            BLOCK_M=ROWS,
        )
    return out


def pulled(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    core: int,
    scale: float,
    linear: float,
    bent: float,
    index: Tensor,
    p: Tensor,
    w: Tensor,
    dout: Tensor,
) -> list[Tensor | None]:
    """Gradients of a, b, v, readout and key_bias."""
    a, b, v, dout, w = (x.contiguous() for x in (a, b, v, dout, w))
    (g, n, d), (shared, m, d_v), k = a.shape, v.shape, index.shape[2]
    da, db, dv = (torch.zeros_like(x) for x in (a, b, v))
    sums = torch.zeros((shared, m), device=a.device)
    reads = torch.zeros((g, triton.cdiv(n, ROWS), padded(d)), device=a.device)
    if da.numel() and dv.numel() and k:
        r = a if readout is None else readout.float().contiguous()
        parts, ds = torch.empty_like(p), torch.empty_like(p)
        widths = {"CORE": core, "D": d, "DP": padded(d), "DV": d_v, "DVP": padded(d_v)}
        numbers = (n, m, k, g // shared, scale, linear, bent)
        row_kernel[(triton.cdiv(n, ROWS), g)](
            a, b, v, r, dout, index, p, w, parts, ds, da, reads, *numbers, **widths, BLOCK_M=ROWS
        )
        by_key, order = index.where(index >= 0, m).view(shared, -1).sort(dim=1, stable=True)
        ends = torch.arange(m + 1, dtype=by_key.dtype, device=a.device).expand(shared, -1).contiguous()
        start = torch.searchsorted(by_key, ends, out_int32=True)
        key_kernel[(m, shared)](
            a, b, r, dout, w, ds, order, start, db, dv, sums, *numbers, **widths, BE=ENTRIES, num_warps=2
        )
    dreadout = None if readout is None or core == DOT else reads.sum(1)[:, :d]
    return [da, db, dv, dreadout, sums]
