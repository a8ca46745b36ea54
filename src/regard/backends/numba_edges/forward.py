"""The forward kernels: scores, alignment and weighted sum of whole rows, or of the parts of one row.

Bytes: E(W b + 4H + 8) + N(W b + 8H) (W = H D, b bytes a value); keys and values of edges add one row read each.
Each kernel runs chunk c of the schedule.
"""

import numpy as np

from .alignments import normalize_softmax, shift_by_tau, shifted_to_weights
from .config import UNIFORM
from .dropout import dropout_mask
from .elementwise import multiply_in_place
from .jit import kernel
from .row_sums import add_weighted_rows, zero_rows
from .schedule import largest_batch, list_batch
from .scores import edge_scores


@kernel
def forward_chunk(c, cuts, plan, graph, t, config, out, tau, index, below):
    """out (n, W), tau (n, H) and index (n, H, k) of whole rows; below (n, H) where tau is kept apart."""
    row, v, value = plan.row, t.v, t.value
    heads, capacity = config.heads, largest_batch(cuts, c, plan)
    ends, words, best = (
        np.empty((4, capacity), np.int64),
        np.empty((4, capacity), np.int32),
        np.empty(index.shape[2], np.int64),
    )
    raw, buffer = np.empty((capacity, heads), out.dtype), np.empty((capacity, heads), out.dtype)
    mask, sources, names = np.empty((capacity, heads), out.dtype), ends[1], ends[3]
    line, total = np.empty((1, t.b.shape[1]), out.dtype), np.empty((1, heads), out.dtype)
    p = cuts[c]
    while p < cuts[c + 1]:
        q, count = list_batch(plan, p, cuts[c + 1], graph, config, ends)
        if config.align != UNIFORM:
            edge_scores(ends, count, t, config, False, raw, buffer, line)
        shift_by_tau(plan, p, q, buffer, tau, below, names, index, best, config)
        shifted_to_weights(buffer, count, config)
        normalize_softmax(plan, p, q, buffer, tau, below, total, config)
        if config.drops:
            dropout_mask(names, count, config, words, mask)
            multiply_in_place(buffer, mask, count * heads)
        zero_rows(row, p, q, out)
        add_weighted_rows(plan, p, q, row, out, v, sources, count, buffer, -1, heads)
        if config.adds:
            add_weighted_rows(plan, p, q, row, out, value, names, count, buffer, -1, heads)
        p = q


@kernel
def part_scores(c, cuts, plan, graph, t, config, base, scores):
    """Scores of the parts of one row with many edges, scores (degree, H)."""
    if config.align == UNIFORM:
        return
    capacity = largest_batch(cuts, c, plan)
    ends, raw = np.empty((4, capacity), np.int64), np.empty((capacity, config.heads), scores.dtype)
    line = np.empty((1, t.b.shape[1]), scores.dtype)
    for p in range(cuts[c], cuts[c + 1]):
        _, count = list_batch(plan, p, p + 1, graph, config, ends)
        edge_scores(ends, count, t, config, False, raw, scores[plan.first[p] - base :], line)


@kernel
def part_align(plan, scores, names, tau, index, below, config):
    """The whole row at once, the one piece of the plan: scores into weights, and dropout."""
    count, heads = scores.shape
    best, total = np.empty(index.shape[2], np.int64), np.empty((1, heads), scores.dtype)
    shift_by_tau(plan, 0, 1, scores, tau, below, names, index, best, config)
    shifted_to_weights(scores, count, config)
    normalize_softmax(plan, 0, 1, scores, tau, below, total, config)
    if config.drops:
        mask, words = np.empty(scores.shape, scores.dtype), np.empty((4, count), np.int32)
        dropout_mask(names, count, config, words, mask)
        multiply_in_place(scores, mask, count * heads)


@kernel
def part_sums(c, cuts, plan, graph, t, config, base, weights, sums):
    """sums (parts, W): what each part adds to the row."""
    ends, place = np.empty((4, largest_batch(cuts, c, plan)), np.int64), np.arange(plan.first.size)
    for p in range(cuts[c], cuts[c + 1]):
        _, count = list_batch(plan, p, p + 1, graph, config, ends)
        zero_rows(place, p, p + 1, sums)
        add_weighted_rows(plan, p, p + 1, place, sums, t.v, ends[1], count, weights, base, config.heads)
        if config.adds:
            add_weighted_rows(plan, p, p + 1, place, sums, t.value, ends[3], count, weights, base, config.heads)
