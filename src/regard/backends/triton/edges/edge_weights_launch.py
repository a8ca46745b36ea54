"""Launching attention over edges through the weights of each edge: every alignment but softmax."""

from typing import Any

import torch
from torch import Tensor

from ..runtime.launch_replay import record_op
from . import edge_weights as kernels
from . import row_weights as by_row
from .launch import EdgeCall, add_parts, strided, target_pass

ALIGNS = {"sigmoid": 0, "relu": 1, "uniform": 2, "sparsemax": 3, "entmax": 4, "top_k": 5}


def forward(call: EdgeCall, align: str, bias: float | None, top: int) -> tuple[Tensor, Tensor, Tensor]:
    """out (n, H, DV), the weights (E, H) in target order, before dropout, and the ids (n, H, k) that top-k chose."""
    v, n, size, graph = call.values, call.a.shape[0], call.sizes, call.graph
    work, chosen = graph.by_target, min(top, call.edges)
    out = call.alloc(n, size["H"], size["DV"], dtype=v.dtype)
    weights = call.alloc(call.edges, size["H"])
    index = record_op(_no_ids, v, n, size["H"], chosen)
    if n == 0:
        return out, weights, index
    if align != "uniform":
        kernels.score_kernel[(work.items.shape[0],)](
            work.items,
            graph.source,
            call.edge,
            *call.score_tables,
            weights,
            call.scale,
            call.slope,
            **call.scored,
            **call.widths("D"),
            **_numbers_or(call, call.forward_config),
        )
    by_rows(
        by_row.weights_kernel,
        call,
        align,
        call.edge,
        weights,
        index,
        bias or 0.0,
        top,
        chosen,
        COUNTED=bias is None,
    )
    part = call.alloc(work.slots * size["HP"] * size["DVP"])
    kernels.aggregate_kernel[(work.items.shape[0],)](
        work.items,
        graph.source,
        call.edge,
        *call.value_tables,
        weights,
        out,
        part,
        *call.chance,
        **call.valued,
        **call.widths("DV"),
        **call.config(8, 1),
    )
    add_parts(call, work.hubs, out, part)
    return out, weights, index


def backward(call: EdgeCall, align: str, weights: Tensor, dout: Tensor) -> list[Tensor]:
    """Gradients of a, b, v, r, key and value; an empty tensor for what there is not."""
    size, graph, scores = call.sizes, call.graph, align != "uniform" and not call.empty
    work = graph.by_source
    dv, dvalue = call.like(call.values), call.like(call.value)
    ds = call.alloc(call.edges if scores else 0, size["H"])
    if not call.empty:
        part = call.alloc(work.slots * size["HP"] * size["DVP"])
        kernels.value_source_kernel[(work.items.shape[0],)](
            work.items,
            graph.target,
            graph.place,
            call.edge,
            *call.value_tables,
            weights,
            *strided(dout),
            dout.stride(2),
            ds,
            dv,
            dvalue,
            part,
            *call.chance,
            SCORES=scores,
            **call.valued,
            **call.widths("DV"),
            **call.config(2, call.row // 128),
        )
        add_parts(call, work.hubs, dv, part)
    if not scores:
        db, dkey = (call.zeros(x) for x in (call.b, call.key))
        da, dr = target_pass(call, None)
        return [da, db, dv, dr, dkey, dvalue]
    by_rows(by_row.row_gradient_kernel, call, align, weights, ds)
    db, dkey = call.like(call.b), call.like(call.key)
    part = call.alloc(work.slots * size["HP"] * size["DP"])
    kernels.key_source_kernel[(work.items.shape[0],)](
        work.items,
        graph.target,
        graph.place,
        call.edge,
        *call.score_tables,
        ds,
        db,
        dkey,
        part,
        call.scale,
        call.slope,
        **call.scored,
        **call.widths("D"),
        **_numbers_or(call, call.backward_config),
    )
    add_parts(call, work.hubs, db, part)
    da, dr = target_pass(call, ds)
    return [da, db, dv, dr, dkey, dvalue]


def by_rows(kernel: Any, call: EdgeCall, align: str, *arguments: Any, **options: Any) -> None:
    """A kernel over whole rows: a warp for each that is not cut, and many warps for a hub."""
    work, heads = call.graph.by_target, call.sizes["HP"]
    for rows, edges, warps in ((work.items, max(8, 256 // heads), 1), (work.hubs, max(64, 4096 // heads), 8)):
        if rows.shape[0]:
            kernel[(rows.shape[0],)](
                rows,
                *arguments,
                MAX_PIECES=1 if warps == 1 else 1 << 30,
                ALIGN=ALIGNS[align],
                **options,
                **call.widths(),
                BE=edges,
                num_warps=warps,
            )


def _numbers_or(call: EdgeCall, config: dict[str, int]) -> dict[str, int]:
    """GAT's scores are numbers, so a step takes many edges."""
    return {"BE": max(8, 256 // call.sizes["HP"]), "num_warps": 1} if call.kind == 0 else config


def _no_ids(v: Tensor, n: int, heads: int, chosen: int) -> Tensor:
    return torch.full((n, heads, chosen), -1, dtype=torch.int32, device=v.device)
