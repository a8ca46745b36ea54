"""Weights on the edges of a graph, as a judge reads and moves them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.core.errors import Refused
from regard.core.maps.attention_map import AttentionMap
from regard.recording.interventions.edge_edits import OnEdges
from regard.recording.interventions.edits import EditedCall
from regard.recording.interventions.interventions import Here, Intervention

from ..attribution.gradients import log_odds
from .attention_selector import AttentionSelector
from .graph_instances import Cases, Laid
from .inputs import Inputs

if TYPE_CHECKING:
    from .adapter import Adapter


@dataclass(frozen=True)
class EdgeSelector(AttentionSelector):
    """The weight of each unit's edges: the mean of heads, of a layer (the last unless told) or of all ("mean").

    cases   whose edges they are; `on_graph` and `on_graphs` fill it in
    """

    cases: Cases | None = None

    tokens = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer == "rollout" or self.row != 0:
            raise ValueError(
                f"EdgeSelector(layer={self.layer!r}, row={self.row!r}): expected the number of a layer or "
                "'mean'; each node has one row of its own."
            )

    def laid(self, inputs: Inputs) -> Laid:
        if self.cases is None:
            raise ValueError(
                "EdgeSelector(cases=None) knows no edges: pass it to on_graph(selector=) or on_graphs(selector=)."
            )
        return self.cases.laid(inputs)

    def read(self, maps: Mapping[str, AttentionMap], inputs: Inputs) -> Tensor:
        return self.of_units(on_edges(self, maps), inputs)

    def read_heads(self, maps: Mapping[str, AttentionMap], inputs: Inputs) -> dict[tuple[str, int], Tensor]:
        found = {}
        for name in self.judged(list(maps)):
            weights = maps[name].edges()
            for head, some in enumerate(weights.reshape(-1, weights.shape[-1])):
                found[name, head] = self.of_units(some, inputs)
        return found

    def of_units(self, weights: Tensor, inputs: Inputs) -> Tensor:
        """(B, n): the mean over the edges of each unit of weights (E,) on the edges that were laid."""
        laid = self.laid(inputs)
        wide = inputs.tokens.shape[1]
        some, slot = laid.place > 0, laid.item * wide + laid.place
        total, count = (torch.zeros(len(inputs) * wide, dtype=torch.float64, device=weights.device) for _ in range(2))
        total.index_add_(0, slot[some], weights[some].double())
        count.index_add_(0, slot[some], torch.ones_like(weights[some], dtype=torch.float64))
        return (total / count.clamp_min(1)).view(len(inputs), wide)

    def rows_of(self, amap: AttentionMap, inputs: Inputs) -> Tensor:
        edges: Tensor = amap.edges()
        laid = self._in_one_row(inputs)
        return self._gathered(edges.reshape(-1, edges.shape[-1]), laid.place > 0, laid, inputs)

    def read_weights(self, weights: Tensor, inputs: Inputs) -> Tensor:
        return weights.mean(1)[:, 0].masked_fill(~inputs.units, 0.0)

    def open_rows(self, now: EditedCall, inputs: Inputs) -> tuple[Tensor, Tensor]:
        ran, laid, some = self._ran(now, inputs)
        made = self._gathered(now.weights().detach()[:, some], None, laid, inputs, ran[some])
        return made, inputs.units[:, None, None, :].expand(made.shape)

    def put_back(self, now: EditedCall, weights: Tensor, inputs: Inputs) -> EditedCall:
        ran, laid, some = self._ran(now, inputs)
        flat = weights[:, :, 0].transpose(0, 1).flatten(1)  # (H, B n)
        slot = (laid.item * inputs.tokens.shape[1] + laid.place)[ran[some]]
        whole = now.weights().detach().index_copy(-1, some.nonzero()[:, 0], flat[:, slot].to(now.weights().dtype))
        return now.given(whole)

    def gradient(self, adapter: "Adapter", inputs: Inputs) -> Tensor:
        return edge_gradient(adapter, inputs).abs()

    def _in_one_row(self, inputs: Inputs) -> Laid:
        laid = self.laid(inputs)
        assert self.cases is not None
        if not self.cases.one_row:
            raise Refused(
                "Weights are permuted and sought among units that share one whole: the edges into one node, "
                "on_graph(units='into'). Here the units are edges into several nodes, or several edges each, "
                "and weights moved from one node to another would not sum to one at either; ablation() "
                "permutes them within every node."
            )
        return laid

    def _ran(self, now: EditedCall, inputs: Inputs) -> tuple[Tensor, Laid, Tensor]:
        """Of each edge that ran: its number among those laid, and whether it is a unit's."""
        laid = self._in_one_row(inputs)
        if not isinstance(now, OnEdges) or len(now.shape) != 2 or now.call.graph.count != laid.place.shape[0]:
            raise Refused(
                f"The judged attention is {now.shape} = {now.axes}, expected one weight for each head and "
                "edge that the model was given: choose the site by EdgeSelector(sites=...)."
            )
        edge = now.call.graph.edge
        ran = edge.clamp_max(laid.place.shape[0] - 1)
        return ran, laid, (edge < laid.place.shape[0]) & (laid.place[ran] > 0)

    def _gathered(
        self, weights: Tensor, some: Tensor | None, laid: Laid, inputs: Inputs, edge: Tensor | None = None
    ) -> Tensor:
        """(B, H, 1, n) of weights (H, edges)."""
        if some is not None:
            weights, edge = weights[:, some], some.nonzero()[:, 0]
        wide = inputs.tokens.shape[1]
        slot = (laid.item * wide + laid.place)[edge]
        made = weights.new_zeros((weights.shape[0], len(inputs) * wide)).index_copy(1, slot, weights)
        return made.unflatten(1, (len(inputs), wide)).transpose(0, 1)[:, :, None]


def on_edges(selector: AttentionSelector, maps: Mapping[str, AttentionMap]) -> Tensor:
    """(E,): the judged weights on the model's edges, the mean of heads and of the judged layers."""
    found = [maps[name].edges() for name in selector.judged(list(maps))]
    return torch.stack([one.reshape(-1, one.shape[-1]).mean(0) for one in found]).mean(0)


class Masked(Intervention):
    """What is sent along each edge, times mask (B, n) of its unit; edges that are no unit's stay."""

    def __init__(self, selector: EdgeSelector, inputs: Inputs, mask: Tensor):
        self.selector, self.laid, self.mask = selector, selector.laid(inputs), mask

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        if not isinstance(now, OnEdges) or now.call.graph.count != self.laid.place.shape[0]:
            raise Refused(f"{here.site} attends over no edges of the graph: choose sites by EdgeSelector(sites=...).")
        edge, count = now.call.graph.edge, self.laid.place.shape[0]
        ran = edge.clamp_max(count - 1)
        place = torch.where(edge < count, self.laid.place[ran], 0)
        factor = self.mask[self.laid.item[ran], place].where(place > 0, 1.0)
        return now.given(now.weights() * factor.to(now.weights().dtype))


def edge_gradient(adapter: "Adapter", inputs: Inputs, towards: int | None = None) -> Tensor:
    """(B, n): the gradient of the log-odds of the predicted class (or of class `towards`) by a mask on each unit's
    edges, in every layer that the selector fits, at 1. Positive: with less of the unit the class is less sure.

        d log p/(1-p) / d m_u,   message along e in layer l times m_u for every edge e of unit u

    As the edge masks of GNNExplainer (Ying et al. 2019) before any step; weights are not made to sum to one again.
    """
    selector = adapter.selector
    assert isinstance(selector, EdgeSelector)
    mask = torch.ones(inputs.real.shape, dtype=torch.float32, device=inputs.real.device, requires_grad=True)
    with torch.enable_grad():
        logits = adapter.logits(inputs, {selector.sites: Masked(selector, inputs, mask)})
        (found,) = torch.autograd.grad(log_odds(logits, towards).sum(), mask)
    return found.double().masked_fill(~inputs.units, 0.0)
