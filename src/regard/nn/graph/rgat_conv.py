"""RGATConv: graph attention with a projection for each relation."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.alignments import Uniform
from regard.core.arguments import checked
from regard.core.arguments.id_bounds import ids_within
from regard.core.attend import Attended, attend
from regard.core.caches.tensor_cache import cached_by_tensor
from regard.core.scores import GAT, Dot, Score
from regard.core.structures.edges import Edges

from ..call_checks import reads
from .adjacency import TYPES, Adjacency
from .input_checks import check_ids, edge_features
from .layer import GraphLayer
from .linear import LazyLinear, glorot_, heads_first, heads_last, linear

MODS = ("additive", "scaled", "f-additive", "f-scaled", None)


class RGATConv(GraphLayer):
    """A projection for each relation r; the softmax runs across relations or within each.

        g_i^r = W_r x_i,   x'_i = sum_(j, r) w_ij^r g_j^r,   w_i = softmax over (j, r), or over j for each r
        additive-self-attention        s = LeakyReLU(Q g_i^r + K g_j^r + E e_ij)
        multiplicative-self-attention  s = (Q g_i^r) (K g_j^r) (E e_ij), for each of `dim` channels by itself

    x (N, F), edge_index (2, E) or an adjacency, edge_type (E,), edge_attr (E, D)  ->  (N, H dim C), or (N, dim C)

    num_bases, num_blocks   W_r as a mixture of bases, or block-diagonal
    mod                     scales by the number of neighbours (cardinality preservation): "additive", "scaled",
                            "f-additive", "f-scaled"

    Also known as: RGAT, relational graph attention.
    Busbridge et al. 2019. Arguments and parameters are those of torch_geometric.nn.RGATConv. Nodes, not edges,
    are projected, once for each relation. Weights of a node sum to 1 across relations, or to the number of relations
    that reach it within them.
    """

    @checked(in_channels=1)
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_relations: int,
        num_bases: int | None = None,
        num_blocks: int | None = None,
        mod: str | None = None,
        attention_mechanism: str = "across-relation",
        attention_mode: str = "additive-self-attention",
        heads: int = 1,
        dim: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        bias: bool = True,
        **options: Any,
    ):
        super().__init__(dropout, **options)
        _check(mod, attention_mechanism, attention_mode, dim, dropout, num_bases, num_blocks)
        self.in_channels, self.out_channels, self.heads, self.dim = in_channels, out_channels, heads, dim
        self.num_relations, self.num_bases, self.num_blocks = num_relations, num_bases, num_blocks
        self.mod, self.attention_mechanism, self.attention_mode = mod, attention_mechanism, attention_mode
        self.activation = nn.ReLU()
        self.concat, self.negative_slope, self.edge_dim = concat, negative_slope, edge_dim
        wide = heads * out_channels
        self.q = nn.Parameter(torch.empty(wide, heads * dim))
        self.k = nn.Parameter(torch.empty(wide, heads * dim))
        self.bias = nn.Parameter(torch.empty(dim * out_channels * (heads if concat else 1))) if bias else None
        self.lin_edge = None if edge_dim is None else linear(edge_dim, wide, bias=False)
        self.e = None if edge_dim is None else nn.Parameter(torch.empty(wide, heads * dim))
        if num_bases is not None:
            self.att = nn.Parameter(torch.empty(num_relations, num_bases))
            self.basis = nn.Parameter(torch.empty(num_bases, in_channels, wide))
        elif num_blocks is not None:
            if in_channels % num_blocks or wide % num_blocks:
                raise ValueError(
                    f"RGATConv(num_blocks={num_blocks}): expected a divisor of in_channels={in_channels} "
                    f"and of heads * out_channels={wide}."
                )
            self.weight = nn.Parameter(
                torch.empty(num_relations, num_blocks, in_channels // num_blocks, wide // num_blocks)
            )
        else:
            self.weight = nn.Parameter(torch.empty(num_relations, in_channels, wide))
        self.w = nn.Parameter(torch.ones(out_channels))
        self.l1 = nn.Parameter(torch.empty(1, out_channels))
        self.b1 = nn.Parameter(torch.empty(1, out_channels))
        self.l2 = nn.Parameter(torch.empty(out_channels, out_channels))
        self.b2 = nn.Parameter(torch.empty(1, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for part in (self.basis, self.att) if self.num_bases is not None else (self.weight,):
            glorot_(part)
        for matrix in (self.q, self.k, self.e):
            if matrix is not None:
                glorot_(matrix)
        if self.lin_edge is not None:
            self.lin_edge.reset_parameters()
        nn.init.ones_(self.w)
        nn.init.ones_(self.l1)
        nn.init.constant_(self.l2, 1 / self.out_channels)
        for vector in (self.bias, self.b1, self.b2):
            if vector is not None:
                nn.init.zeros_(vector)

    @reads()
    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_type: Tensor | None = None,
        edge_attr: Tensor | None = None,
        size: "tuple[int, int] | None" = None,
        return_attention_weights: bool | None = None,
        return_map: bool = False,
    ) -> Any:
        if edge_type is None and not isinstance(edge_index, Tensor):
            edge_type = getattr(edge_index, "edge_type", None)  # of a graph object
        graph = self.read(edge_index, x)
        relation = graph.values if edge_type is None else edge_type
        if edge_type is not None or relation is None:
            check_ids(self, edge_type, "edge_type", "the relation of each edge", graph.index.shape[1])
        assert relation is not None
        relation, nodes = ids_within(relation, (self.num_relations,), TYPES).long(), x.shape[0]
        g = self._projected(x)  # (R, N, H C)
        q, k = (heads_first((g @ matrix).flatten(0, 1), self.heads * self.dim) for matrix in (self.q, self.k))
        v = heads_first(g.flatten(0, 1), self.heads).repeat_interleave(self.dim, 0)  # (H dim, R N, C)
        within = self.attention_mechanism == "within-relation"
        places = cached_by_tensor(
            (graph.index, relation), ("by relation", nodes), lambda: _places(graph.index, relation, nodes)
        )
        key = self._edge_term(edge_features(self, edge_attr, graph, self.edge_dim))  # (H dim, E, 1)
        if not within:  # the query depends on the relation too: added as an edge term
            asked = q[:, places[1]]
            key = asked if key is None else asked + key if self._additive else asked * key
            one = 0.0 if self._additive else 1.0
            q = q.new_full((q.shape[0], nodes, 1), one)
        index = (
            places
            if within
            else cached_by_tensor((places, graph.index), "across", lambda: _across(places, graph.index))
        )
        over = Edges(index, (q.shape[-2], k.shape[-2]), key=key, join="add" if self._additive else "mul")
        score: Score = GAT(slope=self.negative_slope) if self._additive else Dot()
        dropout = self.dropout if self.training and self.mod is None else 0.0
        attended = attend(q, k, v, score, self.align, over, dropout=dropout, backend=self.backend)
        out = self._kept_count(attended, q, k, v, over, graph, nodes)
        out = self._joined(out)
        return self.answer(out, attended, graph, False, return_attention_weights, return_map)

    @property
    def _additive(self) -> bool:
        return self.attention_mode == "additive-self-attention"

    def _projected(self, x: Tensor) -> Tensor:
        """x projected by each relation, (R, N, H C)."""
        if self.num_blocks is not None:
            parts = x.unflatten(-1, (self.num_blocks, -1))
            return torch.einsum("nbi,rbio->rnbo", parts, self.weight).flatten(-2)
        if self.num_bases is not None:
            return x @ torch.einsum("rb,bio->rio", self.att, self.basis)
        return x @ self.weight

    def _edge_term(self, attr: Tensor | None) -> Tensor | None:
        if attr is None or self.lin_edge is None or self.e is None:
            return None
        if isinstance(self.lin_edge, LazyLinear):
            self.lin_edge(attr[:1])  # initialises the lazy linear layer
        return (attr @ (self.lin_edge.weight.t() @ self.e)).t().unsqueeze(-1)

    def _kept_count(
        self, ran: Attended, q: Tensor, k: Tensor, v: Tensor, over: Edges, graph: Adjacency, nodes: int
    ) -> Tensor:
        """(H dim, N, C): summed over relations, and scaled by cardinality according to `mod`."""
        out = _summed(ran.out, nodes)
        if self.mod is None:
            return out
        degree = torch.zeros(nodes, dtype=out.dtype, device=out.device)
        degree = degree.index_add(0, graph.index[1], torch.ones_like(graph.index[1], dtype=out.dtype))[:, None]
        if self.mod == "scaled":
            return out * (self.activation(degree @ self.l1 + self.b1) @ self.l2 + self.b2)
        if self.mod == "f-scaled":
            return out * degree
        target = graph.index[1]
        plain = Edges(torch.stack([over.edge_index[0], target]), (nodes, v.shape[-2]))
        total = attend(q[:, :nodes], k, v, "dot", Uniform(), plain, backend=self.backend).out * degree
        return out + total * (self.w if self.mod == "additive" else 1.0)

    def _joined(self, out: Tensor) -> Tensor:
        if self.concat:
            out = heads_last(out)
        else:
            out = out.unflatten(0, (self.heads, self.dim)).mean(0).transpose(0, 1).flatten(1)
        return out if self.bias is None else out + self.bias


def _places(index: Tensor, relation: Tensor, nodes: int) -> Tensor:
    """Sources and targets as (relation, node) pairs."""
    return index + relation * nodes


def _across(places: Tensor, index: Tensor) -> Tensor:
    """Sources as (relation, node) pairs, targets as nodes."""
    return torch.stack([places[0], index[1]])


def _summed(out: Tensor, nodes: int) -> Tensor:
    """(H, R N, C) or (H, N, C) -> (H, N, C), summed over relations."""
    return out if out.shape[1] == nodes else out.unflatten(1, (-1, nodes)).sum(1)


def _check(
    mod: str | None, mechanism: str, mode: str, dim: int, dropout: float, bases: int | None, blocks: int | None
) -> None:
    if mod not in MODS:
        raise ValueError(f"RGATConv(mod={mod!r}): expected one of {', '.join(map(repr, MODS))}.")
    if mechanism not in ("within-relation", "across-relation"):
        raise ValueError(
            f'RGATConv(attention_mechanism={mechanism!r}): expected "within-relation" or "across-relation".'
        )
    if mode not in ("additive-self-attention", "multiplicative-self-attention"):
        raise ValueError(
            f'RGATConv(attention_mode={mode!r}): expected "additive-self-attention" or "multiplicative-self-attention".'
        )
    if mode == "additive-self-attention" and dim > 1:
        raise ValueError(f'RGATConv(dim={dim}) needs attention_mode="multiplicative-self-attention".')
    if dropout > 0 and mod is not None:
        raise ValueError(f"RGATConv(dropout={dropout}) needs mod=None: mod= cannot be combined with dropout.")
    if bases is not None and blocks is not None:
        raise ValueError("RGATConv(num_bases=, num_blocks=): give one of them.")
