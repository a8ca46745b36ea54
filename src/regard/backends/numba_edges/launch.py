"""Launching the kernels: node-major tables, hubs, chunks and the threads that take them."""

import itertools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.alignments.alignment import ROUNDED
from regard.core.caches.tensor_cache import cached_by_tensor
from regard.core.structures.edges import BySource, Neighbours

from .arguments import EdgeCpuArguments
from .backward import any_beyond, row_dots, row_means, source_gradients, target_gradients
from .config import (
    ADD,
    ALIGNMENTS,
    DOT,
    ENTMAX,
    LEAKY,
    MUL,
    PAIR,
    SOFTMAX,
    SPARSEMAX,
    TANH,
    TOPK,
    UNIFORM,
    EdgeLists,
    KernelConfig,
    NodeTables,
    WorkPlan,
)
from .forward import forward_chunk, part_align, part_scores, part_sums
from .schedule import cut_into_pieces, edges_by_source

SERIAL = 300_000  # the least cost of a chunk; under twice that, threads cost more than they bring
LIMIT = 1 << 14  # edges of a piece; a row of more is cut
EDGE = 32  # what an edge costs besides its values, in values
CHUNKS = 256
HALF = (torch.float16, torch.bfloat16)
KEPT_APART = (SOFTMAX, TOPK, SPARSEMAX, ENTMAX)  # whose tau lies about a row's largest score


def is_rounded(tau: np.ndarray) -> bool:
    """Whether rounding tau is seen in the weights, as in core.alignments."""
    return bool(any_beyond(tau.reshape(-1), ROUNDED / np.finfo(tau.dtype).eps))


class NumbaCall:
    """The tables of one call, node-major and in full precision, and the passes over them."""

    def __init__(self, arguments: EdgeCpuArguments):
        a, b, v, readout, key, value, edges, seed, heads, top, kinds, (slope, number, bias, dropout) = arguments
        act, align, join = kinds.split()
        self.inputs, self.edges = arguments, edges
        self.heads, self.batch = heads, a.shape[0] // heads
        double = a.dtype == torch.float64 or v.dtype == torch.float64
        self.dtype = torch.float64 if double else torch.float32
        self.real: Any = np.float64 if double else np.float32
        width = a.shape[2]
        tables = [self.node_major(a), self.node_major(b)]
        tables.append(tables[1] if _same(b, v) else self.node_major(v))
        if readout is None:
            tables.append(np.full((self.batch, 1, heads * width), number, self.real))
        else:
            tables.append(self.node_major(readout[:, None]))
        tables.append(self.empty(self.batch, 0, 0) if key is None else self.node_major(key))
        tables.append(self.empty(self.batch, 0, 0) if value is None else self.node_major(value))
        self.tables = [NodeTables(*(table[item] for table in tables)) for item in range(self.batch)]
        self.width = max(1, width, v.shape[2]) * heads
        drawn = 0 if seed is None else (int(seed) + 1) & (2**64 - 1)  # sampling draws from seed itself
        dot, real = act == "dot", self.real
        self.align = ALIGNMENTS[align]
        self.config = KernelConfig(
            heads,
            DOT if dot else PAIR,
            TANH if act == "tanh" else LEAKY,
            real(slope),
            real(number),
            not dot and width == 1 and act != "tanh",
            readout is not None,
            self.align,
            real(bias),
            top,
            0 if key is None else ADD if join == "add" else MUL,
            value is not None,
            seed is not None and dropout > 0,
            drawn & 0xFFFFFFFF,
            drawn >> 32,
            0,
            False,
            math.ceil(float(np.float32(dropout)) * 2**23 - 0.5),
            real(np.float32(1) / np.float32(1 - dropout)),  # fp32, as everywhere
        )

    def node_major(self, x: Tensor) -> np.ndarray:
        """(B, nodes, heads x w) from (g, nodes, w); a copy only where memory is not node-major already."""
        x = x.detach() if x.dtype == self.dtype else x.detach().to(self.dtype)
        groups, nodes, width = x.shape
        if self.batch == 1:
            nodes_first: np.ndarray = x.transpose(0, 1).contiguous().numpy()
        else:
            nodes_first = x.unflatten(0, (self.batch, self.heads)).transpose(1, 2).contiguous().numpy()
        return nodes_first.reshape(self.batch, nodes, groups // max(1, self.batch) * width)

    def empty(self, *shape: int) -> np.ndarray:
        return np.empty(shape, self.real)

    def forward(self) -> tuple[Tensor, Tensor, Tensor]:
        """out (B, H, n, d_v) and tau (B, H, n), node-major in memory; index (B, H, n, k) of top-k."""
        n, heads, width = self.inputs.a.shape[1], self.heads, self.inputs.v.shape[2]
        top = self.config.top
        out, tau = self.empty(self.batch, n, heads * width), self.empty(self.batch, n, heads)
        index = np.empty((self.batch, n, heads, top) if top else (self.batch, 1, 1, 0), np.int32)
        for item in range(self.batch):
            config = self.config._replace(batch=item)
            self._forward(item, config, out[item], tau[item], index[item], self.empty(0, heads))
        result = torch.from_numpy(out).view(self.batch, n, heads, width).transpose(1, 2)
        return result.to(self.inputs.v.dtype), torch.from_numpy(tau).transpose(1, 2), torch.from_numpy(index)

    def _forward(
        self,
        item: int,
        config: KernelConfig,
        out: np.ndarray,
        tau: np.ndarray,
        index: np.ndarray,
        below: np.ndarray,
    ) -> None:
        t, (work, graph) = self.tables[item], self._by_target()
        run(forward_chunk, work.whole_cuts, work.plan, graph, t, config, out, tau, index, below)
        for row, begin, end in work.hub:
            plan, cuts = work.parts(begin, end)
            first, last = work.start[row], work.start[row + 1]
            scores = self.empty(last - first, self.heads)
            run(part_scores, cuts, plan, graph, t, config, first, scores)
            whole = WorkPlan(*(np.array([k]) for k in (row, first, last, row)))
            part_align(whole, scores, graph.edge[first:last], tau, index, below, config)
            sums = self.empty(end - begin, out.shape[1])
            run(part_sums, cuts, plan, graph, t, config, first, scores, sums)
            out[row] = sums.sum(0)

    def backward(
        self, out: Tensor, tau: Tensor, index: Tensor, dout: Tensor, dtau: Tensor | None
    ) -> list[Tensor | None]:
        """Gradients of the inputs."""
        outs, pulls, taus = (self.node_major(x.flatten(0, 1)) for x in (out, dout, tau[..., None]))
        more = self.empty(self.batch, 0, 0) if dtau is None else self.node_major(dtau.flatten(0, 1)[..., None])
        items = [
            self._backward(item, outs[item], taus[item], index.numpy()[item], pulls[item], more[item])
            for item in range(self.batch)
        ]
        a, b, v, readout, key, value, *_ = self.inputs
        grads: list[Tensor | None] = [
            self._heads_first([item[k] for item in items], x) for k, x in enumerate((a, b, v))
        ]
        if readout is not None:
            grads.append(torch.from_numpy(np.stack([item[3] for item in items])).view(readout.shape).to(readout.dtype))
        else:
            grads.append(None)
        for k, x in ((4, key), (5, value)):
            grads.append(None if x is None else self._heads_first([item[k] for item in items], x))
        return grads

    def _backward(
        self, item: int, out: np.ndarray, tau: np.ndarray, index: np.ndarray, dout: np.ndarray, dtau: np.ndarray
    ) -> list[np.ndarray]:
        t, config = self.tables[item], self.config._replace(batch=item)
        n, m, slots = t.a.shape[0], t.b.shape[0], self.edges[1].shape[0]
        (rows, by_target), (columns, by_source) = self._by_target(), self._by_source()
        below = self.empty(0, self.heads)
        if self.align in (SOFTMAX, TOPK) and self.inputs.v.dtype in HALF:
            exact = self.empty(*out.shape)  # out was rounded to 16 bits: dw - <dout, out> would keep that error alone
            self._forward(item, config, exact, np.empty_like(tau), np.empty_like(index), below)
            out = exact
        if self.align in KEPT_APART and is_rounded(tau):
            config = config._replace(apart=True)
            tau, below = self.empty(n, self.heads), self.empty(n, self.heads)
            self._forward(item, config._replace(drops=False), np.empty_like(out), tau, np.empty_like(index), below)
        stats = self.empty(n, 3 if config.apart else 2, self.heads)
        step = max(1, 2 * SERIAL // self.width)
        run_chunks(row_dots, -(-n // step), step, dout, out, tau, below, dtau, config, stats)
        if self.align in (SPARSEMAX, ENTMAX):
            pulls, slopes = rows.empty(self.real, self.heads), rows.empty(self.real, self.heads)
            run(row_means, rows.cuts, rows.plan, by_target, t, config, stats, dout, pulls, slopes)
            pulls, slopes = rows.merged(pulls), rows.merged(slopes)
            stats[:, 1] = pulls / np.maximum(slopes, np.finfo(self.real).tiny)
        db, dv = columns.empty(self.real, t.b.shape[1]), columns.empty(self.real, t.v.shape[1])
        edge_grads = [
            (np.empty if x.shape[0] == slots else np.zeros)(x.shape, self.real) for x in (t.key, t.value)
        ]  # an edge that a self-loop replaced has no slot
        ds = self.empty(slots if self.align != UNIFORM else 0, self.heads)
        dread = self.empty(len(columns.cuts) - 1, t.readout.shape[1])
        arguments = (by_source, t, config, stats, index, dout, db, dv, *edge_grads, ds, dread)
        run(source_gradients, columns.cuts, columns.plan, *arguments)
        da = rows.empty(self.real, t.a.shape[1])
        if self.align == UNIFORM:
            da[:] = 0
            edge_grads[0][:] = 0
        else:
            run(target_gradients, rows.cuts, rows.plan, by_target, t, config, ds, da)
        return [rows.merged(da)[:n], columns.merged(db)[:m], columns.merged(dv)[:m], dread.sum(0), *edge_grads]

    def _by_target(self) -> tuple["RowWork", Any]:
        start, source, edge = self.edges[:3]
        nothing = edge.numpy()[:0]
        return work_of(start, self.width), EdgeLists(source.numpy(), nothing, edge.numpy(), False)

    def _by_source(self) -> tuple["RowWork", Any]:
        start, target, slot = self.edges[3:]
        return work_of(start, self.width), EdgeLists(target.numpy(), slot.numpy(), self.edges[2].numpy(), True)

    def _heads_first(self, items: list[np.ndarray], like: Tensor) -> Tensor:
        """(g, nodes, w) of node-major tables (nodes, heads x w), one an item of the batch."""
        grads = torch.from_numpy(items[0] if len(items) == 1 else np.stack(items))
        grads = grads.view(len(items), like.shape[1], self.heads, like.shape[2])
        return grads.transpose(1, 2).flatten(0, 1).to(like.dtype)


class RowWork:
    """Rows of a graph as pieces and chunks (see `schedule.cut_into_pieces`)."""

    def __init__(self, start: np.ndarray, width: int):
        self.start, self.rows = start, start.shape[0] - 1
        cost = int(start[-1]) + self.rows
        chunk = max(cost // CHUNKS, SERIAL // (width + EDGE), 1)
        chunk = chunk if cost > 2 * chunk else cost + 1
        row, first, last, place, hub, self.cuts, self.whole = cut_into_pieces(start, LIMIT, chunk)
        self.plan, self.hub = WorkPlan(row, first, last, place), hub.tolist()
        self.whole_cuts = self.cuts[self.cuts <= self.whole]

    def parts(self, begin: int, end: int) -> tuple[Any, np.ndarray]:
        """The parts of one hub, each a chunk."""
        span = slice(self.whole + begin, self.whole + end)
        return type(self.plan)(*(x[span] for x in self.plan)), np.arange(end - begin + 1)

    def empty(self, real: Any, width: int) -> np.ndarray:
        """One sum a row, and one a part after them."""
        return np.empty((self.rows + (self.hub[-1][2] if self.hub else 0), width), real)

    def merged(self, sums: np.ndarray) -> np.ndarray:
        for row, begin, end in self.hub:
            sums[row] = sums[self.rows + begin : self.rows + end].sum(0)
        return sums[: self.rows]


def by_source(graph: Neighbours, m: int) -> BySource:
    """graph.by_source(m), which counting makes four times faster than sorting."""
    if not graph._by_source and not torch.compiler.is_compiling() and type(graph.source) is Tensor:
        counted = edges_by_source(graph.start.numpy(), graph.source.numpy(), m)
        graph._by_source.append(BySource(*(torch.from_numpy(x) for x in counted)))
    return graph.by_source(m)


def work_of(start: Tensor, width: int) -> RowWork:
    """The schedule of a graph, cached for as long as the graph lives."""
    name = ("work", width, LIMIT, SERIAL)
    return cached_by_tensor((start,), name, lambda: RowWork(start.numpy(), width))


def run(kernel: Callable[..., None], cuts: np.ndarray, *arguments: Any) -> None:
    """kernel(c, cuts, ...) for each chunk c."""
    run_chunks(kernel, len(cuts) - 1, cuts, *arguments)


def run_chunks(kernel: Callable[..., None], chunks: int, *arguments: Any) -> None:
    """kernel(c, ...) for each chunk c, on as many threads as torch would use."""
    if chunks == 1:
        kernel(0, *arguments)
        return
    threads = min(torch.get_num_threads(), chunks)
    queue = itertools.count()  # its next() is one step for the interpreter, so each chunk is taken once

    def work() -> None:
        while (c := next(queue)) < chunks:
            kernel(c, *arguments)

    others = [_pool().submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        other.result()


def _same(x: Tensor, y: Tensor) -> bool:
    return x.data_ptr() == y.data_ptr() and x.shape == y.shape and x.stride() == y.stride() and x.dtype == y.dtype


@lru_cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1)), "regard-edges")


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
