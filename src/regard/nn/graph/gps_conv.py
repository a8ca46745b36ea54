"""GPSConv: message passing and global attention in parallel."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.alignments import Alignment
from regard.core.arguments import checked, shown
from regard.core.scores import Score

from ..call_checks import reads
from .graph_self_attention import GraphSelfAttention
from .input_checks import check_nodes
from .node_norm import node_norm


class GPSConv(nn.Module):
    """Message passing and global attention in parallel, summed and passed through an MLP.

        l = norm(x + conv(x, edges)),   g = norm(x + attention(x)),   x' = norm(l + g + MLP(l + g))

    x (N, channels), edge_index as conv takes it, batch (N,) the graph of each node, in any order (one graph unless
    given); further arguments, such as edge_attr, go to conv  ->  (N, channels)

    conv        any layer called as conv(x, edge_index, ...), ours or torch_geometric's; None: attention alone
    norm        "batch_norm", "layer" (each node by itself), None, or a callable from width to module, such as
                torch_geometric.nn.GraphNorm
    attn_type   "multihead", or a module of your own for the attention, called as attention(x, ...) with those of
                edge_index, edge_attr, batch and graphs that its forward has: ExphormerConv, SGFormerAttention, ...
    score, align, backend   of "multihead": any of `attend`
    return_map  (out, AttentionMap) of the attention; the map of the convolution is recorded at its own site

    Also known as: GraphGPS, GPS layer.
    Rampasek et al. 2022. Arguments and parameters are those of torch_geometric.nn.GPSConv, which pads graphs to the
    largest of a batch and needs a sorted batch vector; here attention is over segments, exact for each graph.
    """

    @checked
    def __init__(
        self,
        channels: int,
        conv: "nn.Module | None",
        heads: int = 1,
        dropout: float = 0.0,
        act: "str | Callable[[], nn.Module]" = "relu",
        act_kwargs: "dict[str, Any] | None" = None,
        norm: Any = "batch_norm",
        norm_kwargs: "dict[str, Any] | None" = None,
        attn_type: Any = "multihead",
        attn_kwargs: "dict[str, Any] | None" = None,
        *,
        score: "str | Score" = "scaled_dot",
        align: "str | Alignment" = "softmax",
        backend: str = "auto",
    ):
        super().__init__()
        self.channels, self.heads, self.dropout = channels, heads, dropout
        self.conv = conv
        if attn_type == "multihead":
            given = {"score": score, "align": align, "backend": backend} | (attn_kwargs or {})
            self.attn: Any = GraphSelfAttention(channels, heads, **given)
        elif isinstance(attn_type, nn.Module):
            self.attn = attn_type
        else:
            raise ValueError(
                f'GPSConv(attn_type={shown(attn_type)}): expected "multihead", or a module. For attention in '
                "O(n) pass attn_type=SGFormerAttention(...): torch_geometric's performer counts the padding of a batch."
            )
        self.mlp = nn.Sequential(
            nn.Linear(channels, 2 * channels),
            activation(act, act_kwargs or {}),
            nn.Dropout(dropout),
            nn.Linear(2 * channels, channels),
            nn.Dropout(dropout),
        )
        self.norm1, self.norm2, self.norm3 = (node_norm("GPSConv", norm, channels, norm_kwargs or {}) for _ in range(3))

    def reset_parameters(self) -> None:
        for part in (self.conv, self.attn, *self.mlp, self.norm1, self.norm2, self.norm3):
            if part is not None and hasattr(part, "reset_parameters"):
                part.reset_parameters()

    @reads()
    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        batch: Tensor | None = None,
        graphs: int | None = None,
        return_map: bool = False,
        **more: Any,
    ) -> Any:
        check_nodes(self, x, self.channels, by="channels")
        parts = []
        if self.conv is not None:
            heard = F.dropout(self.conv(x, edge_index, **more), self.dropout, self.training)
            parts.append(_normed(self.norm1, heard + x, batch))
        seen = {"edge_index": edge_index, "batch": batch, "graphs": graphs} | more
        made, amap = self.attn(x, return_map=True, **taken(self.attn, seen))
        made = F.dropout(made, self.dropout, self.training)
        parts.append(_normed(self.norm2, made + x, batch))
        out = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        out = _normed(self.norm3, out + self.mlp(out), batch)
        return (out, amap) if return_map else out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, conv={self.conv}, heads={self.heads})"


def taken(module: nn.Module, given: "dict[str, Any]") -> "dict[str, Any]":
    """The given arguments that the module's forward accepts."""
    known = inspect.signature(module.forward).parameters
    return {name: value for name, value in given.items() if name in known and value is not None}


def activation(act: "str | Callable[[], nn.Module]", options: "dict[str, Any]") -> nn.Module:
    """A module of torch.nn by name, case-insensitive ("relu", "leaky_relu"), or from a callable."""
    if isinstance(act, nn.Module):
        return act
    if callable(act):
        return act(**options)
    names = {name.lower(): name for name in dir(nn.modules.activation) if name[0].isupper()}
    found = names.get(str(act).replace("_", "").lower())
    if found is None:
        raise ValueError(f'act={shown(act)}: expected an activation of torch.nn, such as "relu", "gelu" or "elu".')
    made: nn.Module = getattr(torch.nn, found)(**options)
    return made


def _normed(norm: "nn.Module | None", x: Tensor, batch: Tensor | None) -> Tensor:
    if norm is None or x.shape[0] == 0:
        return x
    made: Tensor = norm(x, **taken(norm, {"batch": batch}))
    return made
