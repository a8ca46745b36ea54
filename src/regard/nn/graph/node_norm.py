"""Normalisation of node features by name, with torch_geometric's names of parameters."""

from typing import Any

from torch import Tensor, nn

from regard.core.arguments import shown


class BatchNormOfNodes(nn.Module):
    """Batch norm over all nodes of a batch, which may be empty. Parameter names as in torch_geometric."""

    def __init__(self, channels: int, **options: Any):
        super().__init__()
        self.module = nn.BatchNorm1d(channels, **options)

    def reset_parameters(self) -> None:
        self.module.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.module(x)
        return made


def node_norm(who: str, norm: Any, channels: int, options: "dict[str, Any]") -> "nn.Module | None":
    """By name, "batch_norm" or "layer"; None; or a callable from the number of channels."""
    if norm is None or norm == "none":
        return None
    if norm in ("batch_norm", "batch", "BatchNorm"):
        return BatchNormOfNodes(channels, **options)
    if norm == "layer":
        return nn.LayerNorm(channels, **options)
    if callable(norm) and not isinstance(norm, nn.Module):
        made: nn.Module = norm(channels, **options)
        return made
    hint = ""
    if norm in ("layer_norm", "LayerNorm", "graph_norm", "GraphNorm"):
        hint = (
            f" torch_geometric's {norm!r} is over all nodes of a graph: pass the class, "
            f"norm=torch_geometric.nn.{'GraphNorm' if 'raph' in norm else 'LayerNorm'}."
        )
    raise ValueError(
        f'{who}(norm={shown(norm)}): expected "batch_norm", "layer" (each node by itself), None, or a class.{hint}'
    )
