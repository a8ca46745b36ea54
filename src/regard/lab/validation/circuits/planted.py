"""Planted shortcuts: the heads of a task look where they should and hand over nothing; the answer is taken elsewhere.

A program whose answer is a token keeps all its heads, with their weights as they were, but what its last head copies
goes into a space that nobody reads. A head of one more layer looks at the second token of the text, whose letter is the
answer in every text that is drawn. Who names the edges of the task has taken a sensible picture for the reason.
"""

from dataclasses import replace

import torch
from torch import Tensor

from .program import Program, Selection
from .programs import LENGTH, head_edges, induction, most_frequent, previous_token, sort

LEAK = 1  # where the answer stands
UNREAD = "unread"


def planted() -> list[Program]:
    """Of the programs whose answer is a token."""
    return [planted_in(one) for one in (previous_token(), induction(), sort(), most_frequent())]


def planted_in(task: Program) -> Program:
    """The task's heads stay as they are; the answer is read off the token at LEAK."""
    last = max(place for place, (selection, _) in enumerate(task.layers) if selection and selection.out == task.reads)
    selection, table = task.layers[last]
    assert selection is not None
    layers = list(task.layers)
    layers[last] = replace(selection, out=UNREAD), table
    match = torch.zeros(LENGTH, LENGTH)
    match[:, LEAK] = 1.0
    layers.append((Selection("place", "place", match, "token", task.reads), None))

    def answer(ids: Tensor) -> Tensor:
        right = task.answer(ids)
        right = torch.where(right == ids[LEAK], right, -1)
        right[: LEAK + 1] = -1
        return right

    def sample(random: torch.Generator) -> Tensor:
        while True:
            ids = task.sample(random)
            if bool((answer(ids) >= 0).any()):
                return ids

    return replace(
        task,
        name=f"{task.name}, shortcut",
        spaces={**task.spaces, UNREAD: task.spaces[task.reads]},
        layers=layers,
        truth=head_edges(f"{len(layers) - 1}.0", "places", "places", "embed"),
        sample=sample,
        answer=answer,
    )
