"""Who finds the edges: each method gives every edge from a writer into a head's query, key or value a number.

All of them ask of the same texts and the same metric, the logit of the right answer less the mean of the others. What
an edge is compared with is its absence (zero), or what another text puts there ("other text").
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import regard
from regard.interventions import DropHeads
from regard.recording.decomposition.why import traced

from .network import EdgeNetwork
from .program import Edge

STEPS = 5  # of integrated gradients


@dataclass
class Found:
    """A number by edge, and what it cost in runs of the model: forward, backward."""

    scores: dict[Edge, float]
    forward: int
    backward: int = 0


def metric(model: EdgeNetwork, logits: Tensor, ids: Tensor) -> Tensor:
    """The logit of the right answer less the mean of all, where there is an answer."""
    answer = torch.stack([model.program.answer(one) for one in ids])
    right = logits.gather(-1, answer.clamp_min(0)[..., None])[..., 0] - logits.mean(-1)
    return right[answer >= 0].mean()


def _nothing(model: EdgeNetwork, ids: Tensor) -> dict[str, Tensor]:
    with torch.no_grad():
        wrote = model.patched(ids, {}, {})[1]
    return {name: torch.zeros_like(x) for name, x in wrote.items()}


def _elsewhere(model: EdgeNetwork, ids: Tensor) -> dict[str, Tensor]:
    with torch.no_grad():
        return model.patched(ids.roll(1, 0), {}, {})[1]


def attention_weights(model: EdgeNetwork, ids: Tensor) -> Found:
    """How peaked the head is, times how peaked the head that writes is."""
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    peak = {}
    for number, amap in enumerate(rec.maps.values()):
        for head, value in enumerate(amap.weights().amax(-1).mean((0, 2)).tolist()):
            peak[f"{number}.{head}"] = value
    return Found({(w, r): peak.get(w, 1.0) * peak[r[:-2]] for w, r in model.edges()}, 1)


def _mask_gradients(model: EdgeNetwork, ids: Tensor, other: dict[str, Tensor], at: float) -> dict[Edge, float]:
    mask = {edge: torch.tensor(at, requires_grad=True) for edge in model.edges()}
    value = metric(model, model.patched(ids, mask, other)[0], ids)
    grads = torch.autograd.grad(value, list(mask.values()))
    return {edge: float(g) for edge, g in zip(mask, grads, strict=True)}


def gradients(model: EdgeNetwork, ids: Tensor) -> Found:
    """|gradient x what was written|."""
    made = _mask_gradients(model, ids, _nothing(model, ids), 1.0)
    return Found({edge: abs(x) for edge, x in made.items()}, 1, 1)


def attribution_patching(model: EdgeNetwork, ids: Tensor) -> Found:
    """|gradient x difference to another text|: edge attribution patching (Syed et al. 2023)."""
    made = _mask_gradients(model, ids, _elsewhere(model, ids), 1.0)
    return Found({edge: abs(x) for edge, x in made.items()}, 2, 1)


def _integrated(model: EdgeNetwork, ids: Tensor, other: dict[str, Tensor]) -> Found:
    total = dict.fromkeys(model.edges(), 0.0)
    for step in range(STEPS):
        for edge, x in _mask_gradients(model, ids, other, (step + 0.5) / STEPS).items():
            total[edge] += x / STEPS
    return Found({edge: abs(x) for edge, x in total.items()}, STEPS + 1, STEPS)


def integrated_zero(model: EdgeNetwork, ids: Tensor) -> Found:
    """Edge attribution patching with integrated gradients, from nothing (Hanna et al. 2024)."""
    return _integrated(model, ids, _nothing(model, ids))


def integrated(model: EdgeNetwork, ids: Tensor) -> Found:
    """Edge attribution patching with integrated gradients, from another text."""
    return _integrated(model, ids, _elsewhere(model, ids))


def _patching(model: EdgeNetwork, ids: Tensor, other: dict[str, Tensor]) -> Found:
    with torch.no_grad():
        whole = metric(model, model.patched(ids, {}, {})[0], ids)
        made = {
            edge: abs(float(whole - metric(model, model.patched(ids, {edge: torch.tensor(0.0)}, other)[0], ids)))
            for edge in model.edges()
        }
    return Found(made, 1 + len(made))


def patching_zero(model: EdgeNetwork, ids: Tensor) -> Found:
    """Path patching, edge by edge: its absence."""
    return _patching(model, ids, _nothing(model, ids))


def patching(model: EdgeNetwork, ids: Tensor) -> Found:
    """Activation patching, edge by edge: what another text puts there."""
    return _patching(model, ids, _elsewhere(model, ids))


@torch.no_grad()
def why(model: EdgeNetwork, ids: Tensor) -> Found:
    """Ours: how far the row moves without the writer's part of the query or key (total variation), or the share of the
    head's output that its part of the values carries; times what silencing the head does to the metric."""
    with regard.record(model) as rec:
        before = metric(model, model(ids), ids)
    run, n, runs = traced(rec), ids.shape[-1], 2
    scores = dict.fromkeys(model.edges(), 0.0)
    for number, site in enumerate(rec.maps):
        call = run.call(site)
        for head in range(call.heads):
            with regard.intervene(model, {site: DropHeads(head)}):
                effect = abs(float(before - metric(model, model(ids), ids)))
            runs += 1
            if not effect:
                continue
            for item in range(len(ids)):
                w = rec.maps[site][item][head].weights().double()
                sides = {part: run.side(call, item, head, range(n), part) for part in ("query", "key")}
                q, k = sides["query"].x.sum(0), sides["key"].x.sum(0)
                for part, side in sides.items():
                    for writer, x in zip(side.writers, side.x, strict=True):
                        change = (x @ k.mT if part == "query" else q @ x.mT) * (call.scale or 1.0)
                        moved = w * torch.exp(-change + change.amin(-1, keepdim=True))
                        moved = moved / moved.sum(-1, keepdim=True)
                        _add(
                            scores,
                            writer,
                            f"{number}.{head}.{part[0]}",
                            effect * 0.5 * float((w - moved).abs().sum(-1).mean()),
                        )
                values = run.value_parts(call, item, head)
                size = (w @ values.x.sum(0)).norm()
                for writer, x in zip(values.writers, values.x, strict=True):
                    _add(scores, writer, f"{number}.{head}.v", effect * float((w @ x).norm() / size.clamp_min(1e-12)))
    return Found({edge: x / len(ids) for edge, x in scores.items()}, runs)


def _add(scores: dict[Edge, float], writer: Any, reader: str, value: float) -> None:
    name = {"embedding": "embed", "position": "places"}.get(writer.kind, "")
    if writer.kind in ("head", "MLP"):
        name = f"{writer.layer}.{writer.head}" if writer.kind == "head" else f"mlp {writer.layer}"
    if (name, reader) in scores:
        scores[name, reader] += value


METHODS: dict[str, Callable[[EdgeNetwork, Tensor], Found]] = {
    "attention weights": attention_weights,
    "gradient x part": gradients,
    "attribution patching": attribution_patching,
    "EAP-IG, other text": integrated,
    "EAP-IG, zero": integrated_zero,
    "activation patching, other text": patching,
    "activation patching, zero": patching_zero,
    "why": why,
}
