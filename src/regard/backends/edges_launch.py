"""Launching the kernels of edges_numba: node-major tables, hubs, chunks and the threads that take them."""

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

ACTS = {"leaky_relu": 0, "relu": 0, "identity": 0, "tanh": 1}
SERIAL = 100_000  # edges x values under which threads cost more than they bring
CHUNKS = 256


class Call:
    """The tables of one call, node-major and in full precision, and the passes over them."""

    def __init__(
        self,
        a: Tensor,
        b: Tensor,
        v: Tensor,
        readout: Tensor | None,
        edges: list[Tensor],
        seed: Tensor | None,
        heads: int,
        act: str,
        slope: float,
        number: float,
        align: str,
        bias: float,
        dropout: float,
    ):
        from . import edges_numba

        self.code = edges_numba
        self.heads, self.batch = heads, a.shape[0] // heads
        self.dtype = torch.float64 if torch.float64 in (a.dtype, v.dtype) else torch.float32
        self.real = np.float64 if self.dtype == torch.float64 else np.float32
        self.a, self.b = self.table(a), self.table(b)
        self.v = self.b if _same(b, v) else self.table(v)
        width = a.shape[2]
        read = (
            np.full((self.batch, heads, width), number, self.real) if readout is None else self.table(readout[:, None])
        )
        self.readout = read.reshape(self.batch, heads * width)
        self.graph = [x.numpy() for x in edges]
        self.width = max(1, width, v.shape[2]) * heads
        real, key = self.real, 0 if seed is None else (int(seed) + 1) & (2**64 - 1)  # sampling draws from seed itself
        kept = float(torch.ones((), dtype=torch.bool) / (1 - dropout))  # fp32, as everywhere
        self.align = getattr(edges_numba, align.upper())
        dot = act == "dot"
        self.how = edges_numba.How(
            heads,
            edges_numba.DOT if dot else edges_numba.PAIR,
            ACTS.get(act, 0),
            real(slope),
            real(number),
            not dot and width == 1 and ACTS[act] == 0,
            readout is not None,
            self.align,
            real(bias),
            seed is not None and dropout > 0,
            key & 0xFFFFFFFF,
            key >> 32,
            0,
            float(np.float32(dropout)),
            real(kept),
        )

    def table(self, x: Tensor) -> np.ndarray:
        """(B, nodes, heads x w) from (g, nodes, w); a copy only where memory is not node-major already."""
        x = x.detach().to(self.dtype).unflatten(0, (self.batch, self.heads)).transpose(1, 2)
        made: np.ndarray = x.contiguous().flatten(2).numpy()
        return made

    def empty(self, *shape: int) -> np.ndarray:
        return np.empty(shape, self.real)

    def forward(self, item: int, out: np.ndarray, tau: np.ndarray) -> None:
        start, source, edge = self.graph[:3]
        a, b, v, readout, how = self._of(item)
        work = Work(self, start, rows_only=True)
        work.run(self.code.forward, work.row, work.first, work.last, source, edge, a, b, v, readout, how, out, tau)
        for row, begin, end in work.hub:
            at, base = work.parts(begin, end), start[row]
            scores = self.empty(start[row + 1] - base, self.heads)
            at.run(self.code.part_scores, at.row, at.first, at.last, base, source, a, b, readout, how, scores)
            self.code.part_align(scores, base, edge, tau[row], how)
            sums = self.empty(end - begin, self.heads, v.shape[1] // self.heads)
            at.run(self.code.part_sums, at.first, at.last, base, source, v, scores, how, sums)
            out[row] = sums.sum(0).reshape(-1)

    def backward(
        self, item: int, out: np.ndarray, tau: np.ndarray, dout: np.ndarray, dtau: np.ndarray | None
    ) -> list[np.ndarray]:
        start, source, edge, start_by_source, target, slot = self.graph
        a, b, v, readout, how = self._of(item)
        code, n, m = self.code, a.shape[0], b.shape[0]
        by_row, by_column = Work(self, start), Work(self, start_by_source)
        stats = self.empty(n, 2, self.heads)
        stats[:, 0] = tau
        stats[:, 1] = self._means(by_row, item, out, tau, dout)
        if dtau is not None:  # d tau = sum p ds
            stats[:, 1] -= dtau
        db, dv = by_column.empty(b.shape[1]), by_column.empty(v.shape[1])
        ds = self.empty(source.shape[0] if self.align != code.UNIFORM else 0, self.heads)
        dread = self.empty(len(by_column.cuts) - 1, readout.shape[0])
        by_column.run(
            code.by_source,
            by_column.row,
            by_column.first,
            by_column.last,
            by_column.place,
            target,
            slot,
            edge,
            a,
            b,
            v,
            readout,
            how,
            stats,
            dout,
            db,
            dv,
            ds,
            dread,
        )
        da = by_row.empty(a.shape[1])
        if self.align == code.UNIFORM:
            da[:] = 0
        else:
            by_row.run(
                code.by_target, by_row.row, by_row.first, by_row.last, by_row.place, source, a, b, readout, how, ds, da
            )
        return [by_row.merged(da, n), by_column.merged(db, m), by_column.merged(dv, m), dread.sum(0)]

    def _means(self, work: "Work", item: int, out: np.ndarray, tau: np.ndarray, dout: np.ndarray) -> Any:
        """(n, H): what the gradient of a weight is compared with; sum_j p_j dp_j = <dout, out> for a softmax."""
        code = self.code
        if self.align in (code.SIGMOID, code.UNIFORM):
            return 0.0
        if self.align == code.SOFTMAX:
            means = self.empty(out.shape[0], self.heads)
            rows = Work(self, np.arange(out.shape[0] + 1))
            rows.run(code.row_dots, rows.row, dout, out, self.how, means)
            return means
        a, b, v, readout, how = self._of(item)
        above, below = work.empty(self.heads), work.empty(self.heads)
        work.run(
            code.row_means,
            work.row,
            work.first,
            work.last,
            work.place,
            self.graph[1],
            self.graph[2],
            a,
            b,
            v,
            readout,
            how,
            tau,
            dout,
            above,
            below,
        )
        above, below = work.merged(above, a.shape[0]), work.merged(below, a.shape[0])
        return above / np.maximum(below, np.finfo(self.real).tiny)

    def _of(self, item: int) -> tuple[Any, ...]:
        return self.a[item], self.b[item], self.v[item], self.readout[item], self.how._replace(batch=item)


class Work:
    """Rows of a graph as pieces and chunks (see edges_numba.pieces), and the threads that run them."""

    def __init__(self, call: Call, start: np.ndarray, rows_only: bool = False):
        self.call, self.rows, cost = call, start.shape[0] - 1, int(start[-1]) + start.shape[0] - 1
        self.chunk = max(cost // CHUNKS, SERIAL // (4 * call.width), 1) if cost * call.width > SERIAL else cost + 1
        row, first, last, place, hub, cuts, whole = call.code.pieces(start, call.code.LIMIT, self.chunk)
        self.row, self.first, self.last, self.place, self.hub, self.whole = row, first, last, place, hub.tolist(), whole
        self.cuts = cuts[cuts <= whole] if rows_only else cuts

    def parts(self, begin: int, end: int) -> "Work":
        """The parts of one hub, each a chunk."""
        made = object.__new__(Work)
        made.call, made.hub = self.call, []
        span = slice(self.whole + begin, self.whole + end)
        made.row, made.first, made.last = self.row[span], self.first[span], self.last[span]
        made.cuts = np.arange(end - begin + 1)
        return made

    def empty(self, width: int) -> np.ndarray:
        """One sum a row, and one a part after them."""
        return self.call.empty(self.rows + (self.hub[-1][2] if self.hub else 0), width)

    def merged(self, sums: np.ndarray, rows: int) -> np.ndarray:
        for row, begin, end in self.hub:
            sums[row] = sums[rows + begin : rows + end].sum(0)
        return sums[:rows]

    def run(self, kernel: Callable[..., None], *arguments: Any) -> None:
        """kernel(c, cuts, ...) for each chunk c, on as many threads as torch would use."""
        chunks, cuts = len(self.cuts) - 1, self.cuts
        threads = min(torch.get_num_threads(), chunks)
        queue = itertools.count()  # its next() is one step for the interpreter, so each chunk is taken once

        def work() -> None:
            while (c := next(queue)) < chunks:
                kernel(c, cuts, *arguments)

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
