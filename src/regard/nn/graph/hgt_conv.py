"""HGTConv: heterogeneous graph transformer."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.arguments import checked

from ..call_checks import reads
from .adjacency import Adjacency
from .hetero import (
    EdgeType,
    TypedLinear,
    TypedMap,
    by_type,
    check_types,
    end_to_end,
    offsets,
    parameter_name,
    widths_of,
)
from .layer import GraphLayer
from .linear import heads_first, heads_last


class Relations(nn.Module):
    """A d x d matrix for each head and edge type, (H T, d, d), head by head."""

    def __init__(self, count: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, width, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.weight.shape[1] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)


class HGTConv(GraphLayer):
    """Transformer attention over all types of edges at once: projections by node type, metrics by edge type.

        w_t = softmax over all (s, e) of  mu_e (K_s W_e^att) . Q_t / sqrt(d)
        x'_t = sigmoid(a) A_t gelu(sum w V_s W_e^msg) + (1 - sigmoid(a)) x_t          (skip where widths agree)

    x_dict {node type: (N, F)}, edge_index_dict {(source, relation, target): (2, E)}  ->  {node type: (N, C)}

    in_channels may be -1, or a dictionary. return_map=True: (out_dict, TypedMap), whose [edge_type] is (H, E).

    Also known as: HGT, heterogeneous graph transformer.
    Hu et al. 2020. Arguments and parameters are those of torch_geometric.nn.HGTConv. Weights of a node sum to 1 over
    all types of edges together; they are computed in one launch, with a projection for each (node, edge type).
    """

    @checked
    def __init__(
        self, in_channels: "int | dict[str, int]", out_channels: int, metadata: Any, heads: int = 1, **options: Any
    ):
        super().__init__(**options)
        if out_channels % heads:
            raise ValueError(f"HGTConv(out_channels={out_channels}, heads={heads}): expected a multiple of heads.")
        self.in_channels = widths_of("HGTConv", in_channels, metadata)
        self.out_channels, self.heads = out_channels, heads
        self.node_types, self.edge_types = list(metadata[0]), [tuple(kind) for kind in metadata[1]]
        self.edge_types_map = {kind: place for place, kind in enumerate(self.edge_types)}
        self.dst_node_types = {kind[-1] for kind in self.edge_types}
        self.kqv_lin = TypedLinear(self.in_channels, 3 * out_channels)
        self.out_lin = TypedLinear(dict.fromkeys(self.node_types, out_channels), out_channels)
        self.k_rel = Relations(heads * len(self.edge_types), out_channels // heads)
        self.v_rel = Relations(heads * len(self.edge_types), out_channels // heads)
        self.skip = nn.ParameterDict({parameter_name(kind): nn.Parameter(torch.ones(1)) for kind in self.node_types})
        self.p_rel = nn.ParameterDict(
            {parameter_name(kind): nn.Parameter(torch.ones(1, heads)) for kind in self.edge_types}
        )

    def reset_parameters(self) -> None:
        for part in (self.kqv_lin, self.out_lin, self.k_rel, self.v_rel):
            part.reset_parameters()
        for prior in (*self.skip.values(), *self.p_rel.values()):
            nn.init.ones_(prior)

    @reads()
    def forward(
        self, x_dict: dict[str, Tensor], edge_index_dict: "dict[EdgeType, Any] | None" = None, return_map: bool = False
    ) -> Any:
        edge_index_dict = by_type(edge_index_dict)
        check_types(self, x_dict, edge_index_dict, self.edge_types)
        assert edge_index_dict is not None
        made = {kind: part.chunk(3, -1) for kind, part in self.kqv_lin(x_dict).items()}
        queries = {kind: q for kind, (_, q, _) in made.items()}
        starts = offsets(queries)
        q = heads_first(torch.cat(list(queries.values())), self.heads)  # (H, N of all types, d)
        keys, values, indices, shifts, spans = [], [], [], [], {}
        sources = edges = 0
        for kind, adjacency in edge_index_dict.items():
            # bounds are checked by type: an id out of bounds would index a node of another type
            index = self.read(adjacency, (x_dict[kind[0]], x_dict[kind[-1]])).index
            k, _, v = (heads_first(part, self.heads) for part in made[kind[0]])
            keys.append(k @ self._matrix(self.k_rel, kind) * self.p_rel[parameter_name(kind)].view(-1, 1, 1))
            values.append(v @ self._matrix(self.v_rel, kind))
            indices.append(index)
            shifts.append((sources, starts[kind[-1]]))
            spans[kind] = (edges, edges + index.shape[1])
            sources, edges = sources + k.shape[1], edges + index.shape[1]
        empty = q.new_zeros((self.heads, 0, q.shape[-1]))
        k, v = torch.cat([empty, *keys], 1), torch.cat([empty, *values], 1)
        index = end_to_end(indices, shifts).to(q.device)
        attended = self.over_edges(q, k, v, "scaled_dot", Adjacency(index, None, index, held=True))
        out = self._by_type(heads_last(attended.out), x_dict, starts)
        if not return_map:
            return out
        return out, TypedMap(attended.map, spans)

    def _matrix(self, relations: Relations, kind: EdgeType) -> Tensor:
        """(H, d, d) of one edge type."""
        return relations.weight.view(self.heads, len(self.edge_types), *relations.weight.shape[1:])[
            :, self.edge_types_map[tuple(kind)]
        ]

    def _by_type(self, out: Tensor, x_dict: dict[str, Tensor], starts: dict[str, int]) -> dict[str, Tensor]:
        mixed = {
            kind: F.gelu(out[start : start + x_dict[kind].shape[0]])
            for kind, start in starts.items()
            if kind in self.dst_node_types
        }
        found = self.out_lin(mixed)
        for kind in mixed:
            x = x_dict[kind]
            if found[kind].shape[-1] == x.shape[-1]:
                gate = self.skip[parameter_name(kind)].sigmoid()
                found[kind] = gate * found[kind] + (1 - gate) * x
        return {kind: found[kind] for kind in mixed}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(-1, {self.out_channels}, heads={self.heads})"
