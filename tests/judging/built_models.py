"""Four of the models of known truth, with texts, for tests; and one whose parts are known exactly.

The models and the texts are those of `regard.lab.validation`.
"""

import torch
from torch import nn

from regard.judging.adapters.inputs import Instance
from regard.lab.validation.models.no_reasons import Decorative, Leaky
from regard.lab.validation.models.reasons import Bottleneck, Shortcut
from regard.lab.validation.words import EVIDENCE, strengths, texts

__all__ = ["EVIDENCE", "Bag", "Bottleneck", "Decorative", "Leaky", "Shortcut", "built", "strengths", "texts"]


class Bag(nn.Module):
    """No attention: the logit of class 1 is the sum of what words 1 to 4 say, so each word's part is known exactly."""

    SAYS = (0.0, 1.5, -0.5, 0.25, -2.0)

    def __init__(self):
        super().__init__()
        self.vectors = nn.Embedding.from_pretrained(torch.tensor(self.SAYS)[:, None])  # nothing in it is learned

    def forward(self, tokens, real):
        return (self.vectors(tokens)[..., 0] * real).sum(-1)


def built(name: str) -> tuple[nn.Module, list[Instance], list[int]]:
    """A model by name, with texts like those it was made for."""
    model = {"bottleneck": Bottleneck, "decorative": Decorative, "leaky": Leaky, "shortcut": Shortcut}[name]()
    return model.eval(), *texts(marked=name == "shortcut")
