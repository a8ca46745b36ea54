"""NodeSetAttention: edge-set attention's blocks over nodes, for tasks on nodes."""

from typing import Any

from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.structures.edges import Edges

from ..call_checks import reads
from .adjacency import read_graph
from .input_checks import check_graph, check_nodes
from .linear import linear
from .set_attention_block import blocks_by_name, stacked_blocks


class NodeSetAttention(nn.Module):
    """Attention blocks over nodes: masked blocks attend neighbours, the others all nodes of the graph.

        z = W x,   M: z = block(z) over the edges of the graph,   S: z = block(z) over all nodes of the graph

    x (N, F), edge_index (2, E) or an adjacency, batch (N,) the graph of each node (one unless given)  ->  (N, dim)

    blocks        "MSM": the kind of each block
    self_loops    of M: each node attends itself too
    return_map    (out, [AttentionMap of each block]); those of M stand on the caller's edges

    Also known as: node-set attention.
    Buterez et al. 2025, whose results on nodes are of this form. With "M" alone it is a transformer over
    neighbourhoods, with "S" alone one that ignores the edges.
    """

    @checked
    def __init__(
        self,
        in_channels: int,
        dim: int = 64,
        heads: int = 4,
        blocks: str = "MSM",
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        self_loops: bool = True,
        *,
        align: "str | Alignment" = "softmax",
        backend: str = "auto",
    ):
        super().__init__()
        if dim % heads:
            raise ValueError(f"NodeSetAttention(dim={dim}, heads={heads}): expected a multiple of heads.")
        self.in_channels, self.dim, self.heads, self.self_loops = in_channels, dim, heads, self_loops
        self.kinds = blocks_by_name("NodeSetAttention", blocks, "MS")
        self.entrance = linear(in_channels, dim)
        self.blocks = stacked_blocks(
            len(self.kinds), dim, heads, dropout, attn_dropout=attn_dropout, align=align, backend=backend
        )

    @reads()
    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        batch: Tensor | None = None,
        graphs: int | None = None,
        return_map: bool = False,
    ) -> Any:
        check_nodes(self, x, self.in_channels)
        graph = read_graph(edge_index)
        check_graph(self, graph, x)
        nodes = x.shape[-2]
        index = graph.within(nodes, nodes).index
        z, maps = self.entrance(x), []
        for kind, block in zip(self.kinds, self.blocks, strict=True):
            over = Edges(index, (nodes, nodes), self.self_loops) if kind == "M" else None
            z, amap = block(z, batch, graphs, over, return_map=True)
            maps.append(amap)
        return (z, maps) if return_map else z

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.dim}, heads={self.heads}, blocks={self.kinds!r})"
