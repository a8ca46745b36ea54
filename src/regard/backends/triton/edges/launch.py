"""Launching the edge kernels for softmax: the call, its sizes, the configuration table. Imported where Triton runs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import triton
from torch import Tensor

from ..runtime.launch_replay import alloc, record_op
from .backward import delta_kernel, source_kernel, source_merge_kernel, sum_kernel, target_kernel
from .csr_schedule import CSRSchedule
from .forward import forward_kernel, merge_kernel

TWIN = 3  # a join: the edge's key is added to the key and, as its value, to the value
PROGRAMS = 132 * 16  # of the pass over targets, each taking every so many rows


@dataclass(frozen=True, eq=False)
class EdgeCall:
    """One call of attention over a graph: tables (nodes, H, width) and (edges, H, width) with a unit last stride.

    a (n, H, D), b (m, H, D), v (m, H, DV) or None where the keys are the values, r (H, D), key (rows, H, D) and value
    (rows, H, DV) by edge id; edge (E,) the ids in target order. kind, act, join: KIND, ACT, KEY of `primitives`.
    """

    graph: CSRSchedule
    edge: Tensor
    a: Tensor
    b: Tensor
    v: Tensor | None
    r: Tensor | None
    key: Tensor | None
    value: Tensor | None
    seed: Tensor | None
    kind: int
    act: int
    join: int
    scale: float
    slope: float
    dropout: float
    item: int

    @property
    def values(self) -> Tensor:
        return self.b if self.v is None else self.v

    @property
    def edges(self) -> int:
        return self.graph.source.shape[0]

    @property
    def empty(self) -> bool:
        return 0 in (self.a.shape[0], self.b.shape[0], self.edges)

    @cached_property
    def sizes(self) -> dict[str, Any]:
        """Heads and widths, and their next powers of two."""
        exact = {"H": self.a.shape[1], "D": self.a.shape[2], "DV": self.values.shape[2]}
        return exact | {f"{name}P": triton.next_power_of_2(size) for name, size in exact.items()}

    def widths(self, *names: str) -> dict[str, Any]:
        """H, HP and those of the sizes that were named."""
        return {name: self.sizes[name] for part in ("H", *names) for name in (part, f"{part}P")}

    @property
    def scored(self) -> dict[str, Any]:
        """How an edge is scored."""
        return {"KIND": self.kind, "ACT": self.act, "KEY": 1 if self.join == TWIN else self.join}

    @property
    def valued(self) -> dict[str, Any]:
        """What becomes of its value, and whether the kernel needs its id."""
        drops = self.seed is not None and self.dropout > 0
        value = 2 if self.join == TWIN else int(self.value is not None)
        return {"VALUE": value, "DROP": drops, "IDS": drops or value > 0 or self.join > 0}

    @property
    def score_tables(self) -> tuple[Any, ...]:
        r, key = (self.a if x is None else x for x in (self.r, self.key))
        return *strided(self.a), *strided(self.b), r, *strided(key)

    @property
    def value_tables(self) -> tuple[Any, ...]:
        return *strided(self.values), *strided(self.a if self.value is None else self.value)

    @property
    def chance(self) -> tuple[Any, ...]:
        return self.dropout, self.a if self.seed is None else self.seed, self.item

    def alloc(self, *shape: int, dtype: torch.dtype = torch.float32, zero: bool = False) -> Tensor:
        return alloc(shape, self.a.device, dtype, zero)

    def like(self, x: Tensor | None) -> Tensor:
        """A contiguous gradient: nothing for no tensor, zeros where no kernel will write every row."""
        if x is None:
            return self.alloc(0)
        whole = not self.empty and (x.shape[0] == self.edges or (x is not self.key and x is not self.value))
        return self.alloc(*x.shape, dtype=x.dtype, zero=not whole)

    def zeros(self, x: Tensor | None) -> Tensor:
        """The gradient of what receives none."""
        return self.alloc(0) if x is None else self.alloc(*x.shape, dtype=x.dtype, zero=True)

    def config(self, edges: int, warps: int) -> dict[str, int]:
        """Edges a step and warps, measured on an H200 at rows of 128 and 256 numbers; narrow rows take more edges."""
        return {"BE": max(edges, min(32, 256 // self.row)), "num_warps": min(8, max(1, warps))}

    @property
    def row(self) -> int:
        return int(self.sizes["HP"] * max(self.sizes["DP"], self.sizes["DVP"]))

    @property
    def forward_config(self) -> dict[str, int]:
        """GAT streams rows: many in flight to a warp. Others compute on them: few to a warp."""
        return self.config(8, 1) if self.kind == 0 else self.config(2, self.row // 64)

    @property
    def backward_config(self) -> dict[str, int]:
        return self.config(2, self.row // (128 if self.kind == 0 else 64))


def strided(x: Tensor) -> tuple[Tensor, int, int]:
    """A node-major tensor and its strides over nodes and heads."""
    return x, x.stride(0), x.stride(1)


def forward(call: EdgeCall) -> tuple[Tensor, Tensor, Tensor]:
    """out (n, H, DV), tau (n, H), and no ids (n, H, 0)."""
    v, n, size, work = call.values, call.a.shape[0], call.sizes, call.graph.by_target
    out = call.alloc(n, size["H"], size["DV"], dtype=v.dtype)  # every row has an item to write it
    tau, none = call.alloc(n, size["H"]), call.alloc(n, size["H"], 0, dtype=torch.int32)
    if n == 0:
        return out, tau, none
    part = call.alloc(work.slots * size["HP"] * (size["DVP"] + 2))
    forward_kernel[(work.items.shape[0],)](
        work.items,
        call.graph.source,
        call.edge,
        *call.score_tables,
        *call.value_tables,
        out,
        tau,
        part,
        call.scale,
        call.slope,
        *call.chance,
        **call.scored,
        **call.valued,
        **size,
        SHARED=call.v is None,
        **call.forward_config,
    )
    if work.hubs.shape[0]:
        merge_kernel[(work.hubs.shape[0],)](work.hubs, out, tau, part, **call.widths("DV"), num_warps=2)
    return out, tau, none


def backward(call: EdgeCall, out: Tensor, tau: Tensor, dout: Tensor) -> list[Tensor]:
    """Gradients of a, b, v, r, key and value; an empty tensor for what there is not. Without v, that of b has both."""
    size, work, n, shared = call.sizes, call.graph.by_source, call.a.shape[0], call.v is None
    db, dv, dkey, dvalue = (call.like(x) for x in (None if shared else call.b, call.values, call.key, call.value))
    if call.empty:
        return _ordered(call, *target_pass(call, None), db, dv, dkey, dvalue)
    ds, pack = call.alloc(call.edges, size["H"]), call.alloc(n, size["H"], 4)
    pulled = *strided(dout), dout.stride(2)
    delta_kernel[(n,)](out, *pulled, tau, *strided(call.a), pack, KIND=call.kind, **call.widths("DV"), num_warps=1)
    part = call.alloc(work.slots * size["HP"] * (size["DVP"] + size["DP"]))
    source_kernel[(work.items.shape[0],)](
        work.items,
        call.graph.target,
        call.graph.place,
        call.edge,
        *call.score_tables,
        *call.value_tables,
        *pulled,
        pack,
        db,
        dv,
        dkey,
        dvalue,
        ds,
        part,
        call.scale,
        call.slope,
        *call.chance,
        **call.scored,
        **call.valued,
        **size,
        SHARED=shared,
        **call.backward_config,
    )
    if work.hubs.shape[0]:
        source_merge_kernel[(work.hubs.shape[0],)](work.hubs, db, dv, part, **size, SHARED=shared, num_warps=2)
    return _ordered(call, *target_pass(call, ds), db, dv, dkey, dvalue)


def _ordered(
    call: EdgeCall, da: Tensor, dr: Tensor, db: Tensor, dv: Tensor, dkey: Tensor, dvalue: Tensor
) -> list[Tensor]:
    return [da, dv if call.v is None else db, call.alloc(0) if call.v is None else dv, dr, dkey, dvalue]


def target_pass(call: EdgeCall, ds: Tensor | None) -> tuple[Tensor, Tensor]:
    """Gradients of a and r from those of the scores, (E, H) in target order; None where there is none."""
    work, size, reads = call.graph.by_target, call.sizes, call.kind == 1
    if ds is None:
        return call.zeros(call.a), call.zeros(call.r)
    da = call.like(call.a)
    items = work.items.shape[0]
    programs = min(items, PROGRAMS) if reads else items
    dr = call.alloc(programs if reads else 0, size["H"], size["D"])
    part = call.alloc(work.slots * size["HP"] * size["DP"])
    target_kernel[(programs,)](
        work.items,
        items,
        call.graph.source,
        call.edge,
        *call.score_tables,
        ds,
        da,
        dr,
        part,
        call.scale,
        call.slope,
        **call.scored,
        **call.widths("D"),
        **({"BE": 64, "num_warps": 1} if call.kind == 0 else call.backward_config),
    )
    add_parts(call, work.hubs, da, part)
    return da, record_op(torch.sum, dr, 0) if call.r is not None else call.alloc(0)


def add_parts(call: EdgeCall, hubs: Tensor, out: Tensor, part: Tensor) -> None:
    """The rows of `out` (nodes, H, W) that were cut, from their parts."""
    if hubs.shape[0]:
        width = out.shape[2]
        sum_kernel[(hubs.shape[0],)](
            hubs, out, part, W=width, WP=triton.next_power_of_2(width), **call.widths(), num_warps=2
        )
