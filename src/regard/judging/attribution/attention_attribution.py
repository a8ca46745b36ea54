"""Importance by maps that are made of recorded ones: through all layers, with values, with gradients.

Each reads the rows that the adapter's selector reads, of the sites that fit it. A model whose attention pools (one row)
has no way through its layers; such a measure then says so by a ValueError.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.stored import StoredMap
from regard.derived import flow as flow_of
from regard.derived import gradient_times_attention as product_of
from regard.derived import norms as norms_of
from regard.derived import relevance as relevance_of
from regard.derived import rollout as rollout_of
from regard.recording import record
from regard.recording.attribution.layers import layers_of
from regard.recording.record import Record

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs, NotApplicable
from .gradients import log_odds, vectors_held


def rollout(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): the product of all layers, half of each passing it by. Abnar & Zuidema 2020."""
    _of_tokens(adapter)
    return adapter.selector.read_weights(rollout_of(list(adapter.maps(inputs).values())).weights(), inputs).double()


def flow(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): the largest flow from the rows that are read to each token, over all layers. Abnar & Zuidema 2020."""
    _of_tokens(adapter)
    layers = layers_of(list(adapter.maps(inputs).values()))
    maps = [layer.map.weights() for layer in layers]
    made = torch.zeros(inputs.real.shape, dtype=torch.float64, device=inputs.real.device)
    rows = adapter.selector.rows(inputs, maps[-1].shape[-2])
    for item, real in enumerate(inputs.real):
        some = real.nonzero()[:, 0]
        alone = [_stored(w[item : item + 1][..., some, :][..., some]) for w in maps]  # no pipes to padding
        read = rows[item][some].nonzero()[:, 0].tolist()
        made[item, some] = flow_of(alone, read).weights()[0, 0].mean(0).to(made)
    return made


def norms(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): the norm of what each token hands over at the judged sites, all heads together. Kobayashi et al. 2020."""
    _of_tokens(adapter)
    with torch.no_grad(), record(adapter.model, sites=adapter.selector.sites, values=True) as rec:
        adapter.logits(inputs)
    return _mean_of(adapter, norms_of(rec, model=adapter.model, together=True), inputs)


def gradient_times_attention(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): weight times gradient at the judged sites, mean of heads; below 0 where a weight speaks against."""
    rec, logits = _with_gradients(adapter, inputs)
    return _mean_of(adapter, product_of(rec, logits, target=log_odds), inputs)


def relevance(adapter: Adapter, inputs: Inputs) -> Tensor:
    """(B, n): gradient-weighted relevance through all layers, without the 1 that each token starts from.

    Chefer, Gur & Wolf 2021.
    """
    rec, logits = _with_gradients(adapter, inputs)
    made = relevance_of(rec, logits, target=log_odds).weights()
    own = torch.eye(made.shape[-1], dtype=made.dtype, device=made.device)
    return adapter.selector.read_weights(made - own, inputs).double()


def _with_gradients(adapter: Adapter, inputs: Inputs) -> tuple[Record, Tensor]:
    _of_tokens(adapter)
    with vectors_held(adapter), record(adapter.model, sites=adapter.selector.sites, grad=True) as rec:
        logits = adapter.logits(inputs)
    return rec, logits


def _of_tokens(adapter: Adapter) -> None:
    if not adapter.selector.tokens:
        raise NotApplicable(
            "Units of this model are edges, and this map is read by token: for edges there is "
            "regard.judging.attribution.edge_importance."
        )


def _mean_of(adapter: Adapter, maps: Mapping[str, AttentionMap], inputs: Inputs) -> Tensor:
    """Of the judged sites."""
    judged = [maps[site].weights() for site in adapter.selector.judged(list(maps))]
    return torch.stack([adapter.selector.read_weights(one, inputs).double() for one in judged]).mean(0)


def _stored(weights: Tensor) -> StoredMap:
    """(1, H, n, n) -> a map of them."""
    return StoredMap(tuple(weights.shape[:2]), weights.flatten(0, 1), rooted=False)
