"""The attention of a translator while it is made to say the reference, word by word."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.data.aligned_pair import AlignedPair
from regard.data.batch import Example
from regard.models.training.experiment import answers


def forced_weights(
    model: nn.Module, examples: Sequence[Example], device: str = "cpu"
) -> tuple[list[Tensor], list[AlignedPair]]:
    """Weights (targets, sources) of each pair, the mean over heads, and its gold alignment, in the order of examples.

    Forced decoding: step t is given the reference up to there, so that its row speaks of the reference's word t and
    links can be compared with gold. The last row, that of the end mark, comes from no word and is left out. Words are
    told by their numbers; an example without gold has a pair without links. Gold of 1 is a sure link, less is a
    possible one.
    """
    weights: list[Tensor] = [torch.zeros(0)] * len(examples)
    for chosen, _, answer in answers(model, examples, device):
        rows = answer.weights().mean(1)  # (B, t, n)
        for place, row in zip(chosen, rows, strict=True):
            one = examples[place]
            weights[place] = row[: len(one.target) - 1, : one.length].cpu()
    return weights, [_pair(one) for one in examples]


def _pair(one: Example) -> AlignedPair:
    gold = torch.zeros(0, 2) if one.gold is None else one.gold[: len(one.target) - 1]
    sure, possible = (frozenset((int(s), int(t)) for t, s in some.nonzero().tolist()) for some in (gold == 1, gold > 0))
    source, target = (tuple(str(int(word)) for word in words) for words in (one.inputs, one.target[:-1]))
    return AlignedPair(source, target, sure, possible)
