"""Generation with beam search."""

from typing import Any

import torch
from torch import Tensor

from ..data.batch import Batch
from ..data.vocabulary import END, PAD, START


@torch.no_grad()
def generate(model: Any, batch: Batch, longest: int = 80, beam: int = 1) -> Tensor:
    """Generates words (B, t) for each item, ended by the end token and padded.

    beam   beam width; the hypothesis with the best mean log-probability of a word is returned. 1 is greedy.

    A model has begin(batch) and step(words (B,), state) -> (logits (B, words), state, Attended); a state has
    reorder(index) for surviving beams.
    """
    if beam < 1 or longest < 1:
        raise ValueError(f"generate(beam={beam}, longest={longest}): expected 1 or more of each.")
    items, device = len(batch), batch.inputs.device
    state = model.begin(batch)
    if beam > 1:
        state = state.reorder(torch.arange(items, device=device).repeat_interleave(beam))
    first = torch.arange(items, device=device)[:, None] * beam
    output = torch.zeros(items * beam, 0, dtype=torch.long, device=device)
    word = torch.full((items * beam,), START, device=device)
    total = torch.full((items, beam), float("-inf"), device=device)
    total[:, 0] = 0.0  # all beams start equal: only the first counts
    ended = torch.zeros(items * beam, dtype=torch.bool, device=device)
    count = torch.zeros(items * beam, device=device)
    for _ in range(longest):
        logits, state, _ = model.step(word, state)
        logits[:, PAD] = logits[:, START] = float("-inf")
        scores = logits.float().log_softmax(-1)
        only = torch.full_like(scores, float("-inf"))
        only[:, PAD] = 0.0
        scores = torch.where(ended[:, None], only, scores)
        if beam == 1:
            word = scores.argmax(-1)
        else:
            best, place = (total[..., None] + scores.unflatten(0, (items, beam))).flatten(1).topk(beam, -1)
            total, index = best, (first + place // scores.shape[-1]).flatten()
            word = (place % scores.shape[-1]).flatten()
            state, output = state.reorder(index), output.index_select(0, index)
            ended, count = ended.index_select(0, index), count.index_select(0, index)
        output = torch.cat([output, word[:, None]], 1)
        count = count + ~ended
        ended = ended | (word == END)
        if bool(ended.all()):
            break
    if beam == 1:
        return output
    best = (total / count.unflatten(0, (items, beam)).clamp_min(1)).argmax(-1)
    return output.unflatten(0, (items, beam))[torch.arange(items, device=device), best]
