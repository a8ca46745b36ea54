"""Heterogeneous graphs: concatenating tensors over types, and splitting maps by edge type."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.arguments import shown, widths
from regard.core.caches.tensor_cache import cached_by_tensor
from regard.core.maps.attention_map import AttentionMap

from .input_checks import check_nodes
from .linear import linear

EdgeType = tuple[str, str, str]


class TypedMap(Mapping[EdgeType, Tensor]):
    """Weights of attention over all edge types together: typed[edge_type] is (H, E), in the caller's edge order.

    `joint` is the map over all types: rows and columns are the concatenated nodes of all types.
    """

    def __init__(self, joint: AttentionMap, spans: "dict[EdgeType, tuple[int, int]]"):
        self.joint, self.spans = joint, spans

    def __getitem__(self, edge_type: EdgeType) -> Tensor:
        start, stop = self.spans[edge_type]
        return self.joint.edges()[..., start:stop]

    def __iter__(self) -> Iterator[EdgeType]:
        return iter(self.spans)

    def __len__(self) -> int:
        return len(self.spans)

    def __repr__(self) -> str:
        return f"TypedMap({', '.join('-'.join(kind) for kind in self.spans)})"


class TypedLinear(nn.Module):
    """A linear map for each node type: y_t = x_t W_t^T + b_t."""

    def __init__(self, widths: dict[str, int], outputs: int):
        super().__init__()
        self.lins = nn.ModuleDict({kind: linear(width, outputs, glorot=False) for kind, width in widths.items()})

    def reset_parameters(self) -> None:
        for part in self.lins.values():
            part.reset_parameters()  # type: ignore[operator]

    def forward(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        return {kind: part(x[kind]) for kind, part in self.lins.items() if kind in x}


def by_type(graph: Any) -> Any:
    """{edge type: edges}, from itself or from torch_geometric's HeteroData."""
    if isinstance(graph, Mapping) or not hasattr(graph, "edge_types"):
        return graph
    return {kind: graph[kind] for kind in graph.edge_types}


def offsets(x: dict[str, Tensor]) -> dict[str, int]:
    """Offset of each type in the concatenation."""
    found, start = {}, 0
    for kind, part in x.items():
        found[kind] = start
        start += part.shape[0]
    return found


def end_to_end(indices: list[Tensor], shifts: list[tuple[int, int]]) -> Tensor:
    """Concatenated edge lists, each shifted by (sources, targets); cached by tensors."""

    def make() -> Tensor:
        if not indices:
            return torch.zeros(2, 0, dtype=torch.long)
        return torch.cat([x + x.new_tensor(shift)[:, None] for x, shift in zip(indices, shifts, strict=True)], 1)

    return cached_by_tensor(tuple(indices), ("end to end", tuple(shifts)), make)


def parameter_name(kind: "str | tuple[str, ...]") -> str:
    """A type as torch_geometric names its parameters."""
    name = "__".join(kind) if isinstance(kind, tuple) else kind
    name = f"<{name}>" if name in dir(nn.ParameterDict) else name
    return name.replace(".", "#")


def widths_of(who: str, channels: "int | dict[str, int]", metadata: Any) -> dict[str, int]:
    """The width of each node type; -1 takes it from the first input."""
    try:
        nodes, edges = metadata
        told = all(isinstance(kind, str) for kind in nodes) and all(len(tuple(kind)) == 3 for kind in edges)
    except (TypeError, ValueError):
        told = False
    if not told:
        raise ValueError(
            f"{who}(metadata={shown(metadata)}): expected (node types, edge types), such as (['paper'], "
            "[('paper', 'cites', 'paper')]): data.metadata()."
        )
    made = channels if isinstance(channels, dict) else dict.fromkeys(nodes, channels)
    for kind, width in made.items():
        widths(width, who, f"in_channels of {kind!r}" if isinstance(channels, dict) else "in_channels", pair=False)
    return made


def check_types(layer: nn.Module, x_dict: Any, edge_index_dict: Any, edge_types: Any) -> None:
    """Features by node type and edges by edge type, of types that the layer was built for."""
    who = type(layer).__name__
    wanted = {
        "x_dict": (x_dict, "{node type: (N, F)}"),
        "edge_index_dict": (edge_index_dict, "{(source, relation, target): (2, E)}"),
    }
    for name, (given, kind) in wanted.items():
        if not isinstance(given, Mapping):
            told = "missing" if given is None else f"a {type(given).__name__}"
            raise TypeError(
                f"{who}: {name} is {told}, expected a dictionary {kind}: conv(data.x_dict, data.edge_index_dict)."
            )
    channels: dict[str, int] = layer.in_channels  # type: ignore[assignment]
    for kind, x in x_dict.items():
        if kind not in channels:
            raise ValueError(
                f"{who}: x_dict has the node type {kind!r}, expected one of {', '.join(channels)}, as in metadata."
            )
        check_nodes(layer, x, channels[kind], f"x_dict[{kind!r}]")
    known = [tuple(kind) for kind in edge_types]
    for kind in edge_index_dict:
        if kind not in known:
            raise ValueError(
                f"{who}: edge_index_dict has the edge type {kind!r}, expected one of {known}, as in metadata."
            )
        for end in (kind[0], kind[-1]):
            if end not in x_dict:
                raise ValueError(
                    f"{who}: x_dict has no features of {end!r}, which {kind} joins: give x_dict[{end!r}] "
                    "too, or leave those edges out."
                )
