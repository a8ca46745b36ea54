"""Regard inside torch_geometric: layers as MessagePassing modules, and an explainer over maps.

from regard.integrations.torch_geometric import GATConv           # to_hetero, summary, GNNExplainer see it
Explainer(model, algorithm=MapExplainer(), ...)                   # edges by recorded attention, HGT and HAN too
"""

from ...core.errors import lacking

try:
    import torch_geometric.nn  # noqa: F401
except ImportError as error:
    raise lacking("regard.integrations.torch_geometric", "torch_geometric", "graph") from error

from .explainer import MapExplainer
from .explanation import to_explanation
from .message_passing import (
    AGNNConv,
    AttentionalAggregation,
    GATConv,
    GATv2Conv,
    HANConv,
    HGTConv,
    RGATConv,
    SuperGATConv,
    TransformerConv,
)

__all__ = [
    "AGNNConv",
    "AttentionalAggregation",
    "GATConv",
    "GATv2Conv",
    "HANConv",
    "HGTConv",
    "MapExplainer",
    "RGATConv",
    "SuperGATConv",
    "TransformerConv",
    "to_explanation",
]
