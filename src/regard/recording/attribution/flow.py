"""Attention flow: the maximum flow from an input token to an output token through the layers as a network."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import lacking, within
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.stored import StoredMap

from .layers import Layer, layers_of, part_of
from .rollout import averaged, shares

GRAIN = 1 << 28  # capacities are whole numbers of 1 / GRAIN
LIMIT = 500_000_000  # pairs times pipes: about a minute


def flow(
    maps: Any,
    rows: "Sequence[int] | None" = None,
    *,
    part: str | None = None,
    sites: str = "*",
    residual: float = 0.5,
    limit: int = LIMIT,
) -> AttentionMap:
    """The largest flow from each output token to each input token over the layers: a map (B, 1, rows, m).

    The pipe from token i of layer l to token j of the layer below holds (residual I + (1 - residual) A_l)_ij, A_l the
    mean of heads; flow goes along many ways at once, and a narrow place holds it up: with two layers it is
    sum_k min(A_2[i, k], A_1[k, j]).

    rows    the output tokens to look at (all unless told); the map has these rows, in this order
    part    in an encoder-decoder: "cross" (the default), "target", "source"; pipes of cross-attention end in the
            encoder's last layer
    limit   the most pairs times pipes to work through: one flow is found for each pair (Dinic's algorithm, scipy)

    Never more than what the token's own pipes hold, 1. Pipes are rounded to 2^-28, weights to far more in float32.
    Abnar & Zuidema 2020.
    """
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow
    except ModuleNotFoundError as missing:
        raise lacking("flow()", "scipy", "judge") from missing
    if not 0.0 <= residual <= 1.0:
        raise ValueError(f"flow(residual={residual!r}): expected a share from 0 to 1.")
    layers = averaged(layers_of(maps, sites))
    part = part_of(layers, part)
    used = [layer for layer in layers if part in ("cross", layer.kind) or (part == "target" and layer.kind == "cross")]
    ends = [layer.map for layer in layers if layer.kind == part][-1]
    chosen = (
        list(range(ends.n))
        if rows is None
        else [within(i, ends.n, f"flow(rows=[..., {i}, ...])", "rows") for i in rows]
    )
    items = ends.slab.stop - ends.slab.start
    pipes = sum(layer.map.n * (layer.map.m + 1) for layer in used)
    if items * len(chosen) * ends.m * pipes > limit:
        raise ValueError(
            f"flow over {items} items, {len(chosen)} rows and {ends.m} columns with {pipes} pipes is "
            f"{items * len(chosen) * ends.m * pipes:,} pairs times pipes, above limit={limit:,}: choose "
            "rows=[...], fewer layers by sites=, or rollout, which has no limit."
        )
    found = torch.zeros((items, len(chosen), ends.m))
    top, bottom = ("source" if part == "source" else "target"), ("target" if part == "target" else "source")
    for item in range(items):
        net = _Net()
        for layer in used:
            net.lay(layer, item, residual)
        count = net.nodes
        start, end, held = (torch.cat(x).numpy() for x in (net.start, net.end, net.held))
        matrix = csr_array((held.astype("int32"), (start, end)), shape=(count, count))
        for place, i in enumerate(chosen):
            for j in range(ends.m):
                done = maximum_flow(matrix, net.level[top] + i, net.first[bottom] + j, method="dinic")
                found[item, place, j] = done.flow_value / GRAIN
    made = StoredMap(ends.lead, found, rooted=False)
    made.columns = ends.columns
    if rows is None:
        made.rows = ends.rows
    elif ends.rows is not None and len(ends.rows) == ends.n and isinstance(ends.rows[0], str):
        made.rows = [ends.rows[i] for i in chosen]
    return made


class _Net:
    """Nodes are tokens of a side at a depth. first, level: where the lowest and the highest depth of a side start."""

    def __init__(self) -> None:
        self.nodes = 0
        self.first: dict[str, int] = {}
        self.level: dict[str, int] = {}
        self.start, self.end, self.held = list[Tensor](), list[Tensor](), list[Tensor]()

    def lay(self, layer: Layer, item: int, residual: float) -> None:
        """The pipes of one layer, from the tokens of a new depth to those below."""
        side, below = ("target", "source") if layer.kind == "cross" else (layer.kind, layer.kind)
        amap = layer.map.narrowed((1,), slice(layer.map.slab.start + item, layer.map.slab.start + item + 1))
        stay, move = (x[0] for x in shares(amap.band(slice(0, amap.n), slice(0, amap.m)).double().cpu(), residual))
        for name, size in ((side, amap.n), (below, amap.m)):
            if name not in self.level:
                self.first[name] = self.level[name] = self._room(size)
        old, new = self.level[side], self._room(amap.n)
        if side == below:
            move = move + torch.diag_embed(stay[:, 0])
        else:
            self._add(new, old, torch.diag_embed(stay[:, 0]))
        self._add(new, self.level[below], move)
        self.level[side] = new

    def _room(self, size: int) -> int:
        self.nodes += size
        return self.nodes - size

    def _add(self, start: int, end: int, share: Tensor) -> None:
        held = (share * GRAIN).round().long()
        i, j = held.nonzero(as_tuple=True)
        self.start.append(start + i)
        self.end.append(end + j)
        self.held.append(held[i, j])
