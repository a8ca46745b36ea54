"""AttentionalAggregation: a graph as the weighted mean of its nodes."""

from typing import Any

from torch import Tensor, nn
from torch.nn import Module

from regard.core.arguments import checked, is_whole, shown
from regard.core.attend import attend
from regard.core.scores import Additive

from ..call_checks import reads
from .input_checks import check_nodes
from .pooling import graphs_of, membership


class AttentionalAggregation(nn.Module):
    """Softmax pooling of the nodes of each graph by a gate network.

        r_g = sum_n w_n h(x_n),   w = softmax over the nodes of graph g of gate(x_n)

    x (..., N, F), index (N,) the graph of each node (or ptr)  ->  (..., graphs, F'); an empty graph gives 0

    gate_nn   F -> 1, or F -> F' for feature-wise weights
    nn        h, the identity unless given
    return_map=True: (out, AttentionMap); map.edges() is the weight of each node

    Also known as: global attention pooling.
    Li et al. 2019. Arguments and parameters are those of torch_geometric.nn.AttentionalAggregation. Duplicating all
    nodes of a graph leaves the result unchanged.
    """

    @checked
    def __init__(self, gate_nn: nn.Module, nn: "nn.Module | None" = None):
        super().__init__()
        for name, part in (("gate_nn", gate_nn), ("nn", nn)):
            if not isinstance(part, Module) and (part is not None or name == "gate_nn"):
                raise TypeError(
                    f"AttentionalAggregation({name}={shown(part)}): expected a module, for example "
                    "torch.nn.Linear(F, 1)."
                )
        self.gate_nn: Any = None if _is_mlp(gate_nn) else gate_nn
        self.gate_mlp: Any = gate_nn if _is_mlp(gate_nn) else None
        self.nn: Any = None if _is_mlp(nn) else nn
        self.mlp: Any = nn if _is_mlp(nn) else None

    def reset_parameters(self) -> None:
        for part in (self.gate_nn, self.gate_mlp, self.nn, self.mlp):
            for module in [] if part is None else [m for m in part.modules() if hasattr(m, "reset_parameters")]:
                module.reset_parameters()

    @reads()
    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        return_map: bool = False,
    ) -> Any:
        check_nodes(self, x, -1)
        if not is_whole(dim) or dim not in (-2, x.ndim - 2):
            raise ValueError(f"dim={shown(dim)}: expected -2, the last axis but one of x, where nodes stand.")
        gate = self.gate_nn(x) if self.gate_mlp is None else self.gate_mlp(x, batch=index, batch_size=dim_size)
        if self.mlp is not None:
            x = self.mlp(x, batch=index, batch_size=dim_size)
        elif self.nn is not None:
            x = self.nn(x)
        batch, graphs = graphs_of(x.shape[-2], index, ptr, dim_size, x.device, ("index", "dim_size"))
        k, v = gate.unsqueeze(-3), x.unsqueeze(-3)
        shape = (*k.shape[:-2], graphs, k.shape[-1])
        if gate.shape[-1] == 1:
            attended = attend(k.new_ones(shape), k, v, "dot", over=membership(batch, graphs))
        else:
            score = Additive(activation="identity", features=True)
            attended = attend(k.new_zeros(shape), k, v, score, over=membership(batch, graphs))
        out = attended.out.squeeze(-3)
        return (out, attended.map) if return_map else out

    def __repr__(self) -> str:
        return f"{type(self).__name__}(gate_nn={self.gate_mlp or self.gate_nn}, nn={self.mlp or self.nn})"


def _is_mlp(part: Any) -> bool:
    """torch_geometric's MLP normalises by graph, so it also takes the batch vector."""
    return type(part).__name__ == "MLP" and type(part).__module__.startswith("torch_geometric")
