"""Launches of the kernels that find the tau of sparse alignments, and the lists of tiles that hold weights."""

from typing import Any

import torch
from torch import Tensor

from ..common.pair_tables import DOT
from ..runtime.fast_launcher import plainly
from ..runtime.launch_replay import alloc
from .active_tiles import active_tile_lists
from .threshold_dot import slots_kernel
from .threshold_pairs import threshold_kernel

STEPS = 40  # of Newton's at most
BUFFER = 128  # scores that a row of a pair's gathers; a larger support takes several walks
SLOTTED: tuple[int, ...] = (DOT,)  # cores whose scores cost so little that some plain walks beat one that gathers
SLOTS = 2  # scores that a slot keeps: with 3 the first walk costs more, and rows need another one less often
REGISTERS = 128  # of a thread in 16 bits: four blocks run beside each other


def find_tau(
    call: Any, sizes: dict[str, Any], given: tuple[Any, ...], tau: Tensor, live: Tensor, more: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Fills tau (g, n) and live, of (g, blocks, tiles). Lists of live tiles of each block of queries, their counts.

    more: modifiers and a sink, by name, which dot products may have.
    """
    grid, vectors, marks, numbers = given
    sizes = {name: size for name, size in sizes.items() if name not in ("DV", "DVP")}
    if call.core not in SLOTTED or sizes["BLOCK_M"] < 64:  # wide heads in fp32 have no registers left for slots
        buffers = row_buffers(grid[1], grid[0] * sizes["BLOCK_M"], BUFFER, live.device)
        threshold_kernel[grid](
            *vectors,
            *marks,
            tau,
            live,
            *buffers,
            *numbers,
            call.power,
            ALIGN=call.align,
            STEPS=STEPS,
            BUFFER=BUFFER,
            FEW=16,
            **sizes,
        )
        return active_tile_lists(call, live, numbers[2:4], False)
    table = alloc(live.numel(), live.device, torch.int16)
    counts = alloc((grid[1], grid[0], 2), live.device, torch.int32)
    plain = not (sizes["OWNED"] or sizes["BIASED"] or call.modifiers) and call.scale > 0
    if call.v.dtype != torch.float32 and not call.modifiers:
        sizes |= {"maxnreg": REGISTERS}
    (plainly(slots_kernel) if more else slots_kernel)[grid](
        *vectors,
        *marks,
        tau,
        live,
        table,
        counts,
        *numbers,
        call.power,
        ALIGN=call.align,
        STEPS=STEPS,
        SLOTS=SLOTS,
        PLAIN=plain,
        **more,
        **sizes,
    )
    return table, counts


def row_buffers(g: int, rows: int, size: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Room for scores of each row, how many it holds, and a bound."""
    return alloc((g, rows, size), device), alloc((g, rows), device, torch.int32), alloc((g, rows), device)
