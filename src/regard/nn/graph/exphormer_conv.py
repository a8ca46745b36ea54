"""ExphormerConv: attention along the edges of the graph, of an expander, and to a virtual node."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.arguments import SMALLEST, checked, number
from regard.core.caches.tensor_cache import cached_by_tensor
from regard.core.scores import Clamp, ScaledDot
from regard.core.structures.edges import Edges

from ..call_checks import reads
from .adjacency import Adjacency
from .expander import expander_edges
from .input_checks import check_ids_of_edges, check_nodes, edge_features
from .layer import GraphLayer
from .linear import heads_first, heads_last, linear
from .pooling import graphs_of

GRAPH, EXPANDER, TO_VIRTUAL, FROM_VIRTUAL, LOOP = range(5)


class ExphormerConv(GraphLayer):
    """Sparse attention over the union of the graph, a random expander and virtual nodes.

        x'_i = sum_j w_ij V x_j,   w_i = softmax_j clamp(sum (Q x_i) * (K x_j) * E_ij / sqrt(C)),   j -> i in the union
        E_ij = a learned vector for the kind of edge, + W_e e_ij on edges of the graph that have features

    x (N, F), edge_index (2, E), edge_attr (E, D), batch (N,) the graph of each node (one graph unless given)
    ->  (N, H C)

    degree         of the expander, an even number; 0: none. It is drawn from `seed` for each graph by its size
    virtual_nodes  of each graph, joined to all its nodes both ways, with learned features; 0: none
    add_self_loops each node attends itself too
    clamp          of scores, as in the authors' code; None: no clamp, which runs on the graph kernels
    expander       (2, X) edges to use instead of random ones, for example precomputed for a data set or a compiled
                   model
    virtual        (graphs * virtual_nodes, F) their features, from the previous layer; return_virtual=True
                   returns the updated ones too, (out, virtual)
    return_map     (out, AttentionMap) over nodes, then virtual nodes: map.edges() has the caller's edges first, then
                   those of the expander, to the virtual nodes, from them, and loops

    Also known as: Exphormer, expander attention.
    Shirzad et al. 2023. Kinds of edges start at 1, where this is scaled dot-product attention. Permutation
    equivariant if the expander's edges are permuted too. Inside GPSConv: attn_type=ExphormerConv(...).
    """

    @checked(degree=0, virtual_nodes=0, seed=0)
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 4,
        degree: int = 6,
        virtual_nodes: int = 1,
        edge_dim: int | None = None,
        add_self_loops: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
        clamp: float | None = 5.0,
        seed: int = 0,
        **options: Any,
    ):
        super().__init__(dropout, **options)
        if degree % 2:
            raise ValueError(f"ExphormerConv(degree={degree}): expected an even number, 0 for no expander.")
        self.in_channels, self.out_channels, self.heads, self.edge_dim = in_channels, out_channels, heads, edge_dim
        self.degree, self.virtual_nodes, self.add_self_loops = degree, virtual_nodes, add_self_loops
        self.clamp = None if clamp is None else number(clamp, "ExphormerConv", "clamp", SMALLEST)
        self.score = ScaledDot() if self.clamp is None else ScaledDot() | Clamp(self.clamp)
        self.seed = seed
        wide = heads * out_channels
        self.lin_query, self.lin_key, self.lin_value = (linear(in_channels, wide, bias) for _ in range(3))
        self.lin_edge = None if edge_dim is None else linear(edge_dim, wide, bias=False)
        self.kinds = nn.Parameter(torch.ones(5, wide))
        self.virtual = nn.Parameter(torch.empty(virtual_nodes, in_channels)) if virtual_nodes else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.begin((self.lin_query, self.lin_key, self.lin_value, self.lin_edge))
        nn.init.ones_(self.kinds)
        if self.virtual is not None:
            nn.init.normal_(self.virtual, std=0.1)

    @reads()
    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        graphs: int | None = None,
        expander: Tensor | None = None,
        virtual: Tensor | None = None,
        return_virtual: bool = False,
        return_map: bool = False,
    ) -> Any:
        graph = self.read(edge_index, x)
        nodes = x.shape[-2]
        ids, count = graphs_of(nodes, batch, None, graphs, x.device)
        attr = edge_features(self, edge_attr, graph, self.edge_dim)
        if self.lin_edge is not None and attr is None:
            raise ValueError(f"ExphormerConv(edge_dim={self.edge_dim}) needs edge_attr (E, {self.edge_dim}).")
        if self.virtual is not None:
            x = torch.cat([x, self._virtual(virtual, count, x)])
        merged, key = self._union(graph, attr, ids, count, batch, expander)
        q, k, v = (heads_first(part(x), self.heads) for part in (self.lin_query, self.lin_key, self.lin_value))
        attended = self.over_edges(q, k, v, self.score, merged, False, key, join="mul")
        out = heads_last(attended.out)
        found: list[Any] = [out[:nodes]]
        if return_virtual:
            found.append(out[nodes:])
        if return_map:
            found.append(attended.map)
        return found[0] if len(found) == 1 else tuple(found)

    def _virtual(self, given: Tensor | None, count: int, x: Tensor) -> Tensor:
        assert self.virtual is not None
        if given is None:
            return self.virtual.to(x.dtype).repeat(count, 1)
        check_nodes(self, given, self.in_channels, "virtual")
        if given.shape[0] != count * self.virtual_nodes:
            raise ValueError(
                f"ExphormerConv: virtual has {given.shape[0]} rows, expected {count * self.virtual_nodes}: "
                f"{self.virtual_nodes} for each of {count} graphs."
            )
        return given

    def _union(
        self,
        graph: Adjacency,
        attr: Tensor | None,
        ids: Tensor,
        count: int,
        batch: Tensor | None,
        expander: Tensor | None,
    ) -> tuple[Adjacency, Tensor]:
        """The union of the graph, the expander, the virtual nodes and loops, cached by graph; and the vector of each
        edge's kind, (H, edges, C)."""
        nodes, asked = ids.shape[0], (self.degree, self.virtual_nodes, self.add_self_loops, self.seed)
        if expander is not None:
            check_ids_of_edges(self, expander, "expander")
            expander = Adjacency(expander, None, expander).within(nodes, nodes).index
        given = tuple(x for x in (graph.index, batch, expander) if x is not None)

        def make() -> tuple[Edges, Tensor]:
            return self._joined(graph.index, ids, count, batch, expander)

        over, kind = cached_by_tensor(given, ("expander union", nodes, count, asked), make)
        vectors = self.kinds[kind]
        if attr is not None and self.lin_edge is not None:
            own = self.lin_edge(attr)
            vectors = torch.cat([vectors[: own.shape[0]] + own, vectors[own.shape[0] :]])
        return Adjacency(over.edge_index, None, over.edge_index, held=True), heads_first(vectors, self.heads)

    def _joined(
        self, index: Tensor, ids: Tensor, count: int, batch: Tensor | None, expander: Tensor | None
    ) -> tuple[Edges, Tensor]:
        """The union, and the kind of each of its edges."""
        nodes, device = ids.shape[0], ids.device
        parts, whole = {GRAPH: index}, nodes
        if expander is not None:
            parts[EXPANDER] = expander
        elif self.degree:
            parts[EXPANDER] = expander_edges(nodes if batch is None else ids, self.degree, self.seed, count).to(device)
        if self.virtual_nodes:
            each = torch.arange(self.virtual_nodes, device=device)
            node = torch.arange(nodes, device=device).repeat_interleave(self.virtual_nodes)
            home = (nodes + ids[:, None] * self.virtual_nodes + each).flatten()
            parts[TO_VIRTUAL], parts[FROM_VIRTUAL] = torch.stack([node, home]), torch.stack([home, node])
            whole = nodes + count * self.virtual_nodes
        if self.add_self_loops:
            parts[LOOP] = torch.arange(whole, device=device).repeat(2, 1)
        kind = torch.cat([torch.full_like(part[0], name) for name, part in parts.items()])
        return Edges.union(*(Edges(part) for part in parts.values())), kind.long()
