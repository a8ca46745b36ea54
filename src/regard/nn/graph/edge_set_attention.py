"""EdgeSetAttention: attention over the set of edges of a graph, without message passing."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import attend
from regard.core.maps.attention_map import AttentionMap
from regard.core.structures import Segments
from regard.core.structures.edges import Edges

from ..call_checks import reads
from .adjacency import Adjacency
from .input_checks import check_ids_of_edges, check_nodes, edge_features
from .line_graph import line_graph
from .linear import heads_first, heads_last
from .pooling import graphs_of
from .set_attention_block import blocks_by_name, stacked_blocks


class EdgeSetAttention(nn.Module):
    """Edges attend edges: masked blocks those that share a node, others all edges of the graph; seeds pool them.

        z_e = MLP [x_source; x_target; e],   M: over the line graph,   S: over all edges of a graph,
        P: s_c = attention(seed_c, the graph's edges),   then blocks among the seeds, and their mean

    x (N, F), edge_index (2, E), edge_attr (E, D), batch (N,) the graph of each node (one graph unless given)
    ->  (graphs, dim) with a P in blocks, else (E, dim), a row for each of the caller's edges

    blocks       "MSMSPS": the kind of each block; after P the blocks are S among a graph's seeds
    seeds        number of learned queries (seeds) in P
    pairs        (2, P) line_graph(edge_index), precomputed: for a compiled model
    return_map   (out, [AttentionMap of each block]): M on pairs of edges, S over all edges, P seeds by edges

    Also known as: ESA, edge-set attention.
    Buterez et al. 2025. No message passing and no positional encoding. The order of edges does not matter to the pooled
    result; a graph without edges is pooled from the seeds alone.
    """

    @checked
    def __init__(
        self,
        in_channels: int,
        dim: int = 64,
        heads: int = 4,
        blocks: str = "MSMSPS",
        edge_dim: int | None = None,
        seeds: int = 32,
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        *,
        align: "str | Alignment" = "softmax",
        backend: str = "auto",
    ):
        super().__init__()
        if dim % heads:
            raise ValueError(f"EdgeSetAttention(dim={dim}, heads={heads}): expected a multiple of heads.")
        self.in_channels, self.dim, self.heads, self.edge_dim = in_channels, dim, heads, edge_dim
        self.kinds, self.align, self.backend = blocks_by_name("EdgeSetAttention", blocks, "MSP"), align, backend
        if "M" in self.kinds.partition("P")[2]:
            raise ValueError(f"EdgeSetAttention(blocks={blocks!r}): seeds have no line graph; after P come S blocks.")
        self.entrance = nn.Sequential(
            nn.Linear(2 * in_channels + (edge_dim or 0), 2 * dim), nn.Mish(), nn.Linear(2 * dim, dim)
        )
        self.blocks = stacked_blocks(
            len(self.kinds) - self.kinds.count("P"), dim, heads, dropout, attn_dropout=attn_dropout, align=align,
            backend=backend,
        )  # fmt: skip
        self.seeds = nn.Parameter(torch.empty(seeds, dim)) if "P" in self.kinds else None
        self.pool = nn.ModuleDict()
        if self.seeds is not None:
            self.pool = nn.ModuleDict({name: nn.Linear(dim, dim) for name in ("query", "key", "value", "out")})
            self.pool["norm"] = nn.LayerNorm(dim)
            nn.init.xavier_uniform_(self.seeds)

    @reads()
    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        graphs: int | None = None,
        pairs: Tensor | None = None,
        return_map: bool = False,
    ) -> Any:
        check_nodes(self, x, self.in_channels)
        check_ids_of_edges(self, edge_index)
        graph = Adjacency(edge_index, None, edge_index).within(x.shape[0], x.shape[0])
        attr = edge_features(self, edge_attr, graph, self.edge_dim)
        if self.edge_dim is not None and attr is None:
            raise ValueError(f"EdgeSetAttention(edge_dim={self.edge_dim}) needs edge_attr (E, {self.edge_dim}).")
        ids, count = graphs_of(x.shape[0], batch, None, graphs, x.device)
        source, target = graph.index
        z = self.entrance(torch.cat([x[source], x[target], *([] if attr is None else [attr])], -1))
        home: Tensor | None = None if batch is None else ids[source]
        maps: list[AttentionMap] = []
        edges, block = z.shape[0], iter(self.blocks)
        for kind in self.kinds:
            if kind == "P":
                z, amap = self._pooled(z, ids[source], count)
                per = self.seeds.shape[0] if self.seeds is not None else 0
                home = torch.arange(count, device=x.device).repeat_interleave(per)
            else:
                if kind == "M" and pairs is None:
                    pairs = line_graph(edge_index)
                over = Edges(pairs, (edges, edges)) if kind == "M" else None
                z, amap = next(block)(z, home, count, over, return_map=True)
            maps.append(amap)
        if self.seeds is not None:
            z = z.view(count, -1, self.dim).mean(1)
        return (z, maps) if return_map else z

    def _pooled(self, z: Tensor, home: Tensor, count: int) -> tuple[Tensor, AttentionMap]:
        """Each seed of each graph attends the edges of that graph, (graphs * seeds, dim)."""
        assert self.seeds is not None
        seeds = self.seeds.to(z.dtype)
        z = self.pool["norm"](z)
        q = heads_first(self.pool["query"](seeds).repeat(count, 1), self.heads)
        k, v = (heads_first(self.pool[name](z), self.heads) for name in ("key", "value"))
        asks = torch.arange(count, device=z.device).repeat_interleave(seeds.shape[0])
        attended = attend(q, k, v, "scaled_dot", self.align, Segments(asks, key_ids=home), backend=self.backend)
        return seeds.repeat(count, 1) + self.pool["out"](heads_last(attended.out)), attended.map

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.dim}, heads={self.heads}, blocks={self.kinds!r})"
