"""Layouts of a sharded sequence: the positions of each process.

contiguous   process r of P holds positions [r n / P, (r + 1) n / P)
zigzag       the sequence in 2 P chunks: process r holds chunks r and 2 P - 1 - r, so that under a causal structure
             every process has the same number of pairs, (2 P + 1) / (2 P) of the mean of all
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .exchange import Group

LAYOUTS = ("zigzag", "contiguous")


def chunks_of(rank: int, ranks: int, layout: str) -> tuple[int, ...]:
    """The chunks of a process, in the order of its tensors."""
    return (rank, 2 * ranks - 1 - rank) if layout == "zigzag" else (rank,)


def spans(rank: int, ranks: int, local: int, layout: str) -> list[tuple[slice, int]]:
    """(rows of the local tensor, where they start in the whole sequence), chunk by chunk."""
    held = chunks_of(rank, ranks, layout)
    size = local // len(held)
    return [(slice(place * size, (place + 1) * size), chunk * size) for place, chunk in enumerate(held)]


def check_layout(layout: Any) -> str:
    if layout not in LAYOUTS:
        raise ValueError(f'layout={layout!r}: expected "zigzag" (balanced under Causal) or "contiguous".')
    return str(layout)


def shard(x: Tensor, group: Any = None, layout: str = "zigzag", dim: int = -2) -> Tensor:
    """The part of a whole tensor that this process holds: x (..., n, d) -> (..., n / P, d), along `dim`.

    group    a ProcessGroup, a DeviceMesh of one dimension, or None for all processes
    """
    where, layout = Group.of(group), check_layout(layout)
    pieces = 2 * where.size if layout == "zigzag" else where.size
    n = x.shape[dim]
    if n % pieces:
        raise ValueError(
            f"shard(x): {n} positions are not a multiple of {pieces} ({where.size} processes, {layout}): pad them to "
            f"{-(-n // pieces) * pieces} and mask the padding, over=Padding(lengths)."
        )
    parts = x.chunk(pieces, dim) if n else [x] * pieces
    return torch.cat([parts[chunk] for chunk in chunks_of(where.rank, where.size, layout)], dim)


def unshard(x: Tensor, group: Any = None, layout: str = "zigzag", dim: int = -2) -> Tensor:
    """The whole tensor on every process, from the part of each; without gradients (losses are local)."""
    where, layout = Group.of(group), check_layout(layout)
    gathered = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(where.size)]
    dist.all_gather(gathered, x.detach().contiguous(), group=where.group)
    return in_order(gathered, layout, dim)


def in_order(parts: list[Tensor], layout: str, dim: int = -2) -> Tensor:
    """The parts of all processes as one sequence."""
    if layout == "contiguous":
        return torch.cat(parts, dim)
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([half[0] for half in halves] + [half[1] for half in reversed(halves)], dim)


def of_ranks(whole: Tensor, ranks: int, layout: str, dim: int = -2) -> list[Tensor]:
    """The inverse of `in_order`."""
    if layout == "contiguous":
        return list(whole.chunk(ranks, dim))
    parts = whole.chunk(2 * ranks, dim)
    return [torch.cat([parts[rank], parts[2 * ranks - 1 - rank]], dim) for rank in range(ranks)]
