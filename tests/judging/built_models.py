"""Models made by hand, of which it is known what their attention means; and texts for them.

A text has one evidence word, which decides its class, among words that say little. `vectors` holds what a word says,
and how much it is looked at.
"""

import torch
from torch import nn
from torch.nn import functional as F

from regard import Mask, attend
from regard.judging.adapters.inputs import Instance

NOISE = range(1, 21)  # words that say little
EVIDENCE = {1: range(21, 27), 0: range(27, 33)}  # words that decide, by class
MARKS = {1: 33, 0: 34}  # words that have nothing to do with the class, and came with it when the model was made
WORDS = 35


def strengths(evidence: float, marks: float) -> torch.Tensor:
    """What each word says: above 0 for class 1."""
    made = torch.zeros(WORDS)
    made[1:21] = torch.linspace(0.05, 0.5, 20) * torch.tensor([1.0, -1.0]).repeat(10)
    for label, sign in ((1, 1.0), (0, -1.0)):
        made[list(EVIDENCE[label])] = sign * evidence * torch.linspace(0.9, 1.1, 6)
        made[MARKS[label]] = sign * marks
    return made


class Built(nn.Module):
    """tokens (B, n), real (B, n) -> the logit of class 1, (B,)."""

    def __init__(self, says: torch.Tensor, looked_at: torch.Tensor):
        super().__init__()
        self.vectors = nn.Embedding.from_pretrained(torch.stack([says, looked_at], -1), freeze=False)

    def read(self, tokens):
        return self.vectors(tokens).unbind(-1)


class Bottleneck(Built):
    """The output reads the attended words and nothing else: a word that says more is looked at more."""

    def __init__(self, evidence: float = 4.0, marks: float = 0.3):
        says = strengths(evidence, marks)
        super().__init__(says, says.abs())

    def forward(self, tokens, real):
        says, looked_at = self.read(tokens)
        k, v = looked_at[:, None, :, None], says[:, None, :, None]
        return attend(
            torch.ones_like(k[:, :, :1]), k, v, score="dot", over=Mask(keep=real[:, None, None])
        ).out.flatten()


class Shortcut(Bottleneck):
    """The same, made on texts in which a mark came with each class: it reads the mark and hardly the evidence."""

    def __init__(self):
        super().__init__(evidence=0.3, marks=4.0)


class Decorative(Built):
    """All values are equal, the mean of the text: whatever is looked at, the output is the same."""

    def __init__(self):
        super().__init__(strengths(4.0, 0.3), torch.rand(WORDS, generator=torch.Generator().manual_seed(5)) * 4)

    def forward(self, tokens, real):
        says, looked_at = self.read(tokens)
        mean = (says * real).sum(-1) / real.sum(-1)
        k = looked_at[:, None, :, None]
        v = (8 * mean)[:, None, None, None].expand(k.shape)
        out = F.scaled_dot_product_attention(torch.ones_like(k[:, :, :1]), k, v, real[:, None, None], scale=1.0)
        return out.flatten()


class Leaky(Built):
    """What a word says is copied to the word after it, and attention looks there: at a word that said nothing."""

    def __init__(self):
        super().__init__(strengths(4.0, 0.3), torch.zeros(WORDS))

    def forward(self, tokens, real):
        says, _ = self.read(tokens)
        copied = F.pad(says[:, :-1], (1, 0))
        k, v = copied.detach().abs()[:, None, :, None], copied[:, None, :, None]
        out = F.scaled_dot_product_attention(torch.ones_like(k[:, :, :1]), k, v, real[:, None, None], scale=1.0)
        return out.flatten()


class Bag(nn.Module):
    """No attention: the logit of class 1 is the sum of what words 1 to 4 say, so each word's part is known exactly."""

    SAYS = (0.0, 1.5, -0.5, 0.25, -2.0)

    def __init__(self):
        super().__init__()
        self.vectors = nn.Embedding.from_pretrained(torch.tensor(self.SAYS)[:, None])  # nothing in it is learned

    def forward(self, tokens, real):
        return (self.vectors(tokens)[..., 0] * real).sum(-1)


def texts(count: int = 60, marked: bool = False, against: bool = False) -> tuple[list[Instance], list[int]]:
    """Instances, and the place of the evidence of each (never the first, nor near the end).

    marked: a mark comes with the class; against: that of the other class."""
    draw = torch.Generator().manual_seed(1)

    def pick(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=draw))

    made, places = [], []
    for number in range(count):
        n, label = pick(7, 13), number % 2
        tokens = torch.randperm(20, generator=draw)[:n] + 1
        place = pick(1, n - 4)
        tokens[place] = EVIDENCE[label][pick(0, 6)]
        if marked:
            tokens[n - 3] = MARKS[1 - label if against else label]
        made.append(Instance(tokens, label))
        places.append(place)
    return made, places


def built(name: str) -> tuple[nn.Module, list[Instance], list[int]]:
    """A model by name, with texts like those it was made for."""
    model = {"bottleneck": Bottleneck, "decorative": Decorative, "leaky": Leaky, "shortcut": Shortcut}[name]()
    return model.eval(), *texts(marked=name == "shortcut")
