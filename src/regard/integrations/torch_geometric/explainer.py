"""MapExplainer: recorded attention as an algorithm of torch_geometric's explain package."""

import logging
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.explain import Explanation, HeteroExplanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import ExplanationType, ModelTaskLevel
from torch_geometric.nn import MessagePassing

from ...nn.graph.layer import GraphLayer
from ...recording import record
from ...recording.attribution.gatt import gatt
from .explanation import REDUCE, EdgeType, edge_mask, typed_edge_mask

_log = logging.getLogger(__name__)


class MapExplainer(ExplainerAlgorithm):
    """Explains edges by recorded attention, of any layer that regard.record supports, ours or torch_geometric's.

        edge_mask_e = reduce over layers l and heads h of  w_e^(l, h)

    reduce      "max" (as AttentionExplainer), "mean", "sum"; or "gatt": the attribution of edges to the one node of
                index= over its computation tree (Shin et al. 2024), node-level and homogeneous
    node_type   the node type of index= in a heterogeneous graph: edges that do not lead to these nodes get 0.
                By default all edges keep their weights
    sites       which sites of the record are the layers

        explainer = Explainer(model, MapExplainer(), explanation_type="model", edge_mask_type="object",
                              model_config=dict(mode="multiclass_classification", task_level="node"))
        explanation = explainer(data.x, data.edge_index, index=8)

    Differences from AttentionExplainer: weights are in the caller's edge order also with self-loops; layers that do not
    expose weights are supported (HGTConv, HANConv), and layers of `regard.nn`. Weights are those of evaluation mode,
    before dropout. Attention over anything but the given edges (pooling, types) is ignored.
    """

    def __init__(self, reduce: str = "max", node_type: str | None = None, sites: str = "*"):
        super().__init__()
        if reduce not in (*REDUCE, "gatt"):
            raise ValueError(f'MapExplainer(reduce={reduce!r}): expected "max", "mean", "sum" or "gatt".')
        self.reduce, self.node_type, self.sites = reduce, node_type, sites

    def forward(
        self,
        model: nn.Module,
        x: "Tensor | dict[str, Tensor]",
        edge_index: "Tensor | dict[EdgeType, Tensor]",
        *,
        target: Tensor | None = None,
        index: "int | Tensor | None" = None,
        **kwargs: Any,
    ) -> "Explanation | HeteroExplanation":
        with torch.no_grad(), record(model) as rec:
            model(x, edge_index, **kwargs)
        maps = {site: amap for site, amap in rec.maps.items() if fnmatchcase(site, self.sites)}
        node_level = self.model_config.task_level == ModelTaskLevel.node
        if isinstance(edge_index, dict):
            assert isinstance(x, dict)
            if self.reduce == "gatt":
                raise ValueError('MapExplainer(reduce="gatt") explains one type of nodes: use "max" here.')
            found = typed_edge_mask(maps, edge_index, self.reduce)
            if node_level and index is not None and self.node_type is not None:
                near = _leads_to(self.node_type, index, edge_index, x, _layers(model))
                found = {kind: weights * near[kind] for kind, weights in found.items()}
            made = HeteroExplanation()
            made.set_value_dict("edge_mask", found)
            return made
        assert isinstance(x, Tensor)
        if self.reduce == "gatt":
            if index is None:
                raise ValueError('MapExplainer(reduce="gatt") explains one node: explainer(x, edge_index, index=8).')
            weights = gatt(maps, index).edges()
            return Explanation(edge_mask=weights if weights.ndim == 1 else weights.sum(0))
        mask = edge_mask(maps, edge_index, self.reduce)
        if node_level and index is not None:
            whole = {("", "", ""): edge_index}
            mask = mask * _leads_to("", index, whole, {"": x}, _layers(model), flow=self._flow(model))[("", "", "")]
        return Explanation(edge_mask=mask)

    def supports(self) -> bool:
        """Only model explanations with edge masks."""
        if self.explainer_config.explanation_type != ExplanationType.model:
            _log.error("MapExplainer explains what the model did: explanation_type='model'.")
            return False
        if self.explainer_config.node_mask_type is not None:
            _log.error("MapExplainer has no masks of features: leave node_mask_type out.")
            return False
        return True


def _layers(model: nn.Module) -> int:
    """Number of hops, as in torch_geometric; HANConv and HGTConv count as one each."""
    return sum(isinstance(module, (MessagePassing, GraphLayer)) for module in model.modules())


def _leads_to(
    node_type: str,
    index: "int | Tensor",
    edges: dict[EdgeType, Tensor],
    x: dict[str, Tensor],
    hops: int,
    flow: str = "source_to_target",
) -> dict[EdgeType, Tensor]:
    """{edge type: bool (E,)}: whether an edge is on a path of at most `hops` steps to the nodes."""
    if node_type not in x:
        raise ValueError(f"MapExplainer(node_type={node_type!r}): expected one of {', '.join(x)}.")
    reached = {kind: torch.zeros(one.shape[0], dtype=torch.bool, device=one.device) for kind, one in x.items()}
    reached[node_type][index] = True
    near = {kind: torch.zeros(one.shape[1], dtype=torch.bool, device=one.device) for kind, one in edges.items()}
    into, out_of = (1, 0) if flow == "source_to_target" else (0, 1)
    for _ in range(hops):
        new = {kind: found.clone() for kind, found in reached.items()}
        for kind, one in edges.items():
            ends = (kind[-1], kind[0]) if into == 1 else (kind[0], kind[-1])
            met = reached[ends[0]][one[into]]
            near[kind] |= met
            new[ends[1]][one[out_of][met]] = True
        if all(bool((new[kind] == reached[kind]).all()) for kind in new):
            break
        reached = new
    return near
