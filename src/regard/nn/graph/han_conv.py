"""HANConv: heterogeneous graph attention network."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.arguments import checked
from regard.core.attend import attend
from regard.core.maps.attention_map import AttentionMap
from regard.core.scores import GAT

from ..call_checks import reads
from .hetero import EdgeType, by_type, check_types, parameter_name, widths_of
from .layer import GraphLayer
from .linear import heads_first, heads_last, linear


class HANConv(GraphLayer):
    """Two levels of attention: over the neighbours of each edge type, then over the edge types.

        z_i^P = relu(sum_j w_ij^P h_j),   w_i^P = softmax_j LeakyReLU(a_d^P . h_i + a_s^P . h_j),   h = M_t x
        x'_i = sum_P beta_P z_i^P,        beta = softmax_P mean_i q . tanh(W z_i^P + b)

    x_dict {node type: (N, F)}, edge_index_dict {(source, path, target): (2, E)}  ->  {node type: (N, C) or None}

    return_semantic_attention_weights   (out_dict, {node type: beta (paths,)})
    return_map=True                     (out_dict, {edge type: AttentionMap}, {node type: beta})

    Also known as: heterogeneous graph attention network.
    Wang et al. 2019. Arguments and parameters are those of torch_geometric.nn.HANConv. beta is one vector for the
    whole graph, so it depends on the mini-batch; with one path it is 1.
    """

    @checked
    def __init__(
        self,
        in_channels: "int | dict[str, int]",
        out_channels: int,
        metadata: Any,
        heads: int = 1,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        **options: Any,
    ):
        super().__init__(dropout, **options)
        if out_channels % heads:
            raise ValueError(f"HANConv(out_channels={out_channels}, heads={heads}): expected a multiple of heads.")
        self.in_channels = widths_of("HANConv", in_channels, metadata)
        self.out_channels, self.heads = out_channels, heads
        self.negative_slope, self.metadata = negative_slope, metadata
        self.k_lin = nn.Linear(out_channels, out_channels)
        self.q = nn.Parameter(torch.empty(1, out_channels))
        self.proj = nn.ModuleDict(
            {kind: linear(width, out_channels, glorot=False) for kind, width in self.in_channels.items()}
        )
        shape = (1, heads, out_channels // heads)
        names = [parameter_name(tuple(kind)) for kind in metadata[1]]
        self.lin_src = nn.ParameterDict({name: nn.Parameter(torch.empty(shape)) for name in names})
        self.lin_dst = nn.ParameterDict({name: nn.Parameter(torch.empty(shape)) for name in names})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.begin(self.proj.values(), (*self.lin_src.values(), *self.lin_dst.values(), self.q))
        self.k_lin.reset_parameters()

    @reads()
    def forward(
        self,
        x_dict: dict[str, Tensor],
        edge_index_dict: "dict[EdgeType, Any] | None" = None,
        return_semantic_attention_weights: bool = False,
        return_map: bool = False,
    ) -> Any:
        edge_index_dict = by_type(edge_index_dict)
        check_types(self, x_dict, edge_index_dict, self.metadata[1])
        assert edge_index_dict is not None
        h = {kind: heads_first(self.proj[kind](x), self.heads) for kind, x in x_dict.items()}
        paths: dict[str, list[Tensor]] = {kind: [] for kind in x_dict}
        maps: dict[EdgeType, AttentionMap] = {}
        for kind, adjacency in edge_index_dict.items():
            graph = self.read(adjacency, (x_dict[kind[0]], x_dict[kind[-1]]))
            name, source, target = parameter_name(tuple(kind)), h[kind[0]], h[kind[-1]]
            q = (target * self.lin_dst[name].transpose(0, 1)).sum(-1, keepdim=True)
            k = (source * self.lin_src[name].transpose(0, 1)).sum(-1, keepdim=True)
            attended = self.over_edges(q, k, source, GAT(slope=self.negative_slope), graph)
            paths[kind[-1]].append(F.relu(heads_last(attended.out)))
            maps[kind] = attended.map
        out: dict[str, Tensor | None] = {}
        semantic: dict[str, Tensor | None] = {}
        for node_type, found in paths.items():
            out[node_type], semantic[node_type] = self._over_paths(found)
        if return_map:
            return out, maps, semantic
        return (out, semantic) if return_semantic_attention_weights else out

    def _over_paths(self, found: list[Tensor]) -> tuple[Tensor | None, Tensor | None]:
        """Attention over the paths, with one weight a path; values are the concatenated node features."""
        if not found:
            return None, None
        z = torch.stack(found)  # (P, N, C)
        if z.numel() == 0:
            return z[0], None
        k = torch.tanh(self.k_lin(z)).mean(1)  # (P, C)
        attended = attend(self.q, k, z.flatten(1), "dot", backend=self.backend)
        return attended.out.view_as(z[0]), attended.map.weights(grad=torch.is_grad_enabled())[0]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.out_channels}, heads={self.heads})"
