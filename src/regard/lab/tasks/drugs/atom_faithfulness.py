"""Faithfulness of attention on atoms for predicted drug response."""

import math

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.judging.adapters.adapter import evaluating
from regard.judging.finding import Finding
from regard.judging.statistics.comparison import compare
from regard.judging.statistics.intervals import stream

from .drug_model import DrugResponse

TEST = "atoms"


def atoms(model: DrugResponse, pairs: Tensor, *, share: float = 0.2, draws: int = 10, seed: int = 0) -> list[Finding]:
    """Weights on atoms against the effect of blanking atoms on the predicted ln IC50.

    pairs (P, 2): drug and cell line. The unit is an atom, removed by setting its features to 0 (bonds stay).
    Weights are those of the readout if it has attention, otherwise the received weight, averaged over layers and
    heads. Values are means over the cell lines of a drug, and drugs are resampled.

    tau          Kendall's tau-b of weights and the change of the prediction when one atom is blanked; baselines: random
                 weights, and the number of bonds
    top atoms    the change when the top `share` of the atoms by weight are blanked; baseline: random atoms

    Constant weights have no order: then both are undefined.
    """
    from scipy.stats import kendalltau

    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise ValueError(f"atoms(pairs of shape {tuple(pairs.shape)}): expected (P, 2), drug and cell line.")
    draw = stream(seed, "atoms")
    with torch.no_grad(), evaluating(model):
        weights = weights_on_atoms(model, pairs).double().cpu().numpy()
        sizes = model.sizes.index_select(0, pairs[:, 0].to(model.sizes.device)).cpu().numpy()
        place = (torch.arange(len(model.graph), device=model.graph.device) - model.place[model.graph, 0]).cpu().numpy()
        graph = model.graph.cpu().numpy()
        bonds = np.bincount(model.edge_index[1].cpu().numpy(), minlength=len(graph))
        before = _predicted(model, pairs, None)
        moved = np.stack([np.abs(_predicted(model, pairs, place == at) - before) for at in range(sizes.max())], 1)
        drugs = pairs[:, 0].cpu().numpy()
        found = np.full((len(pairs), 3), np.nan)
        for row, (drug, size) in enumerate(zip(drugs, sizes, strict=True)):
            w, change = weights[row, :size], moved[row, :size]
            if size < 3 or np.ptp(w) < 1e-9:
                continue
            beside = (w, draw.permutation(size), bonds[graph == drug])
            found[row] = [kendalltau(one, change).statistic if np.ptp(one) > 0 else np.nan for one in beside]
        top = _blanked(model, pairs, weights, sizes, share) - before
        chance = [_blanked(model, pairs, draw.random(weights.shape), sizes, share) - before for _ in range(draws)]
    ordered = np.array([np.ptp(row[:size]) >= 1e-9 for row, size in zip(weights, sizes, strict=True)])
    shift = np.stack([np.abs(top), np.abs(np.stack(chance)).mean(0)], 1)
    shift[~ordered] = np.nan
    tau, moves = (_by_drug(table, drugs) for table in (found, shift))
    others = {"random": tau[:, 1], "number of bonds": tau[:, 2]}
    order = compare(tau[:, 0], others, scale=(-1.0, 1.0), seed=seed)
    far = compare(moves[:, 0], {"random": moves[:, 1]}, scale="skewed", seed=seed)
    why = "undefined: no drug has three atoms whose weights are not all alike."
    return [
        Finding.of(
            order,
            name="tau of weights and blanking one atom",
            better="higher",
            test=TEST,
            unit="Kendall tau-b",
            says=why
            if order.value is None
            else f"Weights and the effect of blanking an atom order the atoms alike by {order.value:.2f}, where 1 is "
            "the same order and 0 chance.",
        ),
        Finding.of(
            far,
            name=f"change when the top {share:.0%} are blanked",
            better="higher",
            test=TEST,
            unit="ln IC50",
            says=why
            if far.value is None
            else f"Blanking the {share:.0%} of the atoms with the most weight moves the prediction by {far.value:.2f}.",
        ),
    ]


def weights_on_atoms(model: DrugResponse, pairs: Tensor) -> Tensor:
    """(P, n): the weight of each atom of the pair's drug, 0 for padding; rows sum to 1."""
    batch = _batch(model, pairs)
    drug = batch.inputs[:, 0]
    answer = model(batch)
    real = torch.arange(model.place.shape[1], device=drug.device) < model.sizes.index_select(0, drug)[:, None]
    if model.reading == "co":
        return answer.maps[0].weights().flatten(0, -2)
    if model.reading == "global":
        by_atom = answer.maps[0].edges()[0]
    elif answer.inner:
        source = model.edge_index[0]
        given = [one.edges().flatten(0, -2).mean(0) for one in answer.inner]
        loops = [one.loops.flatten(0, -2).mean(0) for one in answer.inner]
        by_atom = torch.stack(loops).mean(0).index_add(0, source, torch.stack(given).mean(0))
    else:
        by_atom = torch.ones_like(model.graph, dtype=model.x.dtype)
    rows = by_atom.index_select(0, model.place.index_select(0, drug).flatten()).view(len(drug), -1) * real
    return rows / rows.sum(-1, keepdim=True)


def _batch(model: DrugResponse, pairs: Tensor) -> Batch:
    pairs = pairs.to(model.x.device)
    count = torch.arange(len(pairs), device=pairs.device)
    return Batch(pairs, count, torch.full_like(count, 2), count)


def _predicted(model: DrugResponse, pairs: Tensor, blank: np.ndarray | None) -> np.ndarray:
    """(P,): with these atoms (N,) set to 0, in every drug at once."""
    kept = model.x
    try:
        if blank is not None:
            model.x = kept.masked_fill(torch.from_numpy(blank).to(kept.device)[:, None], 0.0)
        return model(_batch(model, pairs)).out.double().cpu().numpy()
    finally:
        model.x = kept


def _blanked(model: DrugResponse, pairs: Tensor, weights: np.ndarray, sizes: np.ndarray, share: float) -> np.ndarray:
    """(P,): predictions without the top atoms of each pair. A drug is read once a step, so pairs go drug by drug."""
    made = np.zeros(len(pairs))
    start = model.place[:, 0].cpu().numpy()
    drugs = pairs[:, 0].cpu().numpy()
    turn = np.zeros(len(pairs), dtype=int)  # which cell line of its drug a pair is
    for one in np.unique(drugs):
        turn[drugs == one] = np.arange((drugs == one).sum())
    for step in range(turn.max() + 1):
        rows = np.flatnonzero(turn == step)
        blank = np.zeros(len(model.graph), dtype=bool)
        for row in rows:
            count = max(1, math.ceil(share * sizes[row]))
            blank[start[drugs[row]] + np.argsort(-weights[row, : sizes[row]], kind="stable")[:count]] = True
        made[rows] = _predicted(model, pairs[torch.from_numpy(rows)], blank)
    return made


def _by_drug(table: np.ndarray, drugs: np.ndarray) -> np.ndarray:
    """(drugs, columns): means over the cell lines of a drug; NaN where nothing is defined."""
    made = []
    for one in np.unique(drugs):
        rows = table[drugs == one]
        known_rows = rows[~np.isnan(rows[:, 0])]
        made.append(np.nanmean(known_rows, 0) if len(known_rows) else np.full(table.shape[1], np.nan))
    return np.stack(made)
