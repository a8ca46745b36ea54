"""Training of a network on one fold, with its attention or one of its ablations."""

import contextlib
import copy
import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

import regard

from ..models.attention_variants import place_of
from ..models.network import ResponseNetwork
from .fold import Fold

LINES, BLOCKS = 32, 4  # a step has 32 cell lines and one of four blocks of drugs, and all pairs of the two


@contextlib.contextmanager
def ablated(
    network: ResponseNetwork,
    variant: str,
    twin: "ResponseNetwork | None",
    drugs: Tensor,
    lines: Tensor,
    step: int,
) -> Iterator[None]:
    """Context in which the network has the weights of its variant.

    uniform    every row has equal weights
    frozen     the weights of the untrained network for the same input
    permuted   the learned weights, permuted within each row at every step
    """
    place, ablation = place_of(variant)
    if not ablation or (
        ablation == "uniform" and place.readout != "global"
    ):  # these layers are built with align="uniform"
        yield
        return
    if ablation == "frozen":
        assert twin is not None
        change: Any = regard.interventions.Freeze(_first_maps(twin, drugs, lines, place.site.startswith("drug.")))
    else:
        change = regard.interventions.Uniform() if ablation == "uniform" else regard.interventions.Permute(step)
    with regard.intervene(network, {place.site: change}):
        yield


_kept: "weakref.WeakKeyDictionary[ResponseNetwork, dict[tuple[int, ...], Any]]" = weakref.WeakKeyDictionary()


def _first_maps(twin: ResponseNetwork, drugs: Tensor, lines: Tensor, of_drugs: bool) -> Any:
    """The record of the untrained network; weights on molecules do not depend on the cell line and are cached."""
    kept = _kept.setdefault(twin, {})
    key = tuple(drugs.tolist())
    if not of_drugs or key not in kept:
        with torch.no_grad(), regard.record(twin, keep="weights") as record:
            twin(drugs, lines)
        if not of_drugs:
            return record
        kept[key] = record
    return kept[key]


def train(
    fold: Fold,
    variant: str,
    setting: Mapping[str, Any],
    seed: int,
    device: str = "cpu",
    on_epoch: Callable[[float], None] = lambda share: None,
) -> tuple[ResponseNetwork, "ResponseNetwork | None"]:
    """A trained network and, if its weights are frozen, its untrained twin.

    setting   width, layers, heads, dropout of the network; rate, decay, epochs of AdamW with a cosine schedule

    A step sees 32 cell lines and a quarter of the drugs; the loss is the mean squared error over their measured
    training pairs.
    """
    torch.manual_seed(seed)
    shape = {name: setting[name] for name in ("width", "layers", "heads", "dropout") if name in setting}
    network = ResponseNetwork(fold, variant, **shape).to(device)
    twin = copy.deepcopy(network).eval() if place_of(variant)[1] == "frozen" else None
    target = torch.from_numpy(np.nan_to_num(fold.residual)).float().to(device)
    known = torch.from_numpy(fold.train).to(device)
    draw = torch.Generator().manual_seed(seed)
    places = torch.from_numpy(fold.lines)
    blocks = torch.from_numpy(fold.drugs)[torch.randperm(len(fold.drugs), generator=draw)].to(device).chunk(BLOCKS)
    epochs, batches = int(setting["epochs"]), math.ceil(len(places) / LINES)
    optimizer = torch.optim.AdamW(network.parameters(), setting["rate"], weight_decay=setting["decay"])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, setting["rate"], total_steps=epochs * batches)
    network.train()
    step = 0
    for epoch in range(epochs):
        for lines in places[torch.randperm(len(places), generator=draw)].to(device).chunk(batches):
            drugs = blocks[step % BLOCKS]
            with ablated(network, variant, twin, drugs, lines, step):
                predicted = network(drugs, lines)
            some = known[drugs][:, lines]
            wrong = (predicted - target[drugs][:, lines]) / network.scale
            loss = (wrong.square() * some).sum() / some.sum().clamp_min(1)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            step += 1
        on_epoch((epoch + 1) / epochs)
    return network.eval(), twin


@torch.no_grad()
def predict(fold: Fold, network: ResponseNetwork, twin: "ResponseNetwork | None", variant: str) -> np.ndarray:
    """(D, L): the mean effects plus the network's prediction."""
    device = network.scale.device
    drugs = torch.arange(len(fold.panel.names), device=device)
    made = []
    for step, lines in enumerate(torch.arange(len(fold.panel.lines), device=device).split(LINES)):
        with ablated(network, variant, twin, drugs, lines, -1 - step):
            made.append(network(drugs, lines).double().cpu().numpy())
    return fold.offset + np.concatenate(made, 1)
