"""Models whose weights are a faithful reason."""

import torch
from torch import Tensor

from regard import Mask, attend
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.inputs import Inputs, Instance

from ..built import AllRows, OfWords, loudest, numbers_of, of_words, places
from ..words import cued, is_evidence, several, started, texts


class Bottleneck(OfWords):
    """The output reads the attended words and nothing else: a word that says more is looked at more."""

    gain = 1.0

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        return self.attend([self.gain * loud], [says], real)[:, 0]


class Shortcut(Bottleneck):
    """The same, made on texts in which a mark came with each class: it reads the mark and hardly the evidence."""

    def __init__(self) -> None:
        super().__init__(evidence=0.3, marks=4.0)


class Saturated(Bottleneck):
    """The weight of one word is 1 to the last digit, so that the gradient through the softmax is 0."""

    gain = 40.0


class Copy(OfWords):
    """Looks at words of evidence because they are such, however much they say, and copies them."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        return self.attend([8.0 * is_evidence(tokens).float()], [says], real)[:, 0]


class SparseTies(OfWords):
    """Sparsemax: words of evidence have equal weights, all others exactly 0."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        k = 4.0 * is_evidence(tokens).float()[:, None, :, None]
        over = Mask(keep=real[:, None, None])
        q, v = torch.ones_like(k[:, :, :1]), says[:, None, :, None]
        return attend(q, k, v, score="dot", align="sparsemax", over=over).out.flatten()


class Induction(OfWords):
    """The last word stood in the text before: looks at the word that came after it then, and says the same."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        return self.attend([12.0 * after_cue(tokens, real).float()], [says], real)[:, 0]


class Redundant(OfWords):
    """Four heads do the same: without any one of them the output is nearly the same."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        return 4.0 * self.attend([loud] * 4, [says] * 4, real).sum(-1).div(3.0).tanh()


class OneDeadHead(OfWords):
    """Two heads, and the output reads the first alone; the other looks about evenly."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        return self.attend([loud, numbers_of(tokens, 3)], [says, says], real)[:, 0]


class Division(OfWords):
    """Two heads, each for the evidence of one class: what both find is added."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        scores = [8.0 * is_evidence(tokens, label).float() for label in (1, 0)]
        return self.attend(scores, [says, says], real).sum(-1)


class Inhibition(OfWords):
    """The attended word speaks against its own class: the value is subtracted."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        return -self.attend([loud], [says], real)[:, 0]


class SinkOnStart(OfWords):
    """Most of the weight rests on a special token that says nothing; what is left is on the evidence."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        sink = 6.0 * (places(real) == 0)
        return 8.0 * self.attend([loud + sink], [says], real)[:, 0]


class Graded(OfWords):
    """Every word says something, and is looked at by how much."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        return 10.0 * self.attend([6.0 * loud], [says], real)[:, 0]


class UsedLater(OfWords):
    """A first layer gathers what the loud words say; a second one looks at the first place, which has it, and reads."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = AllRows(), AllRows()

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        gathered = self.first(loud, says, real)
        read: Tensor = self.second(8.0 * (places(real) == 0), gathered, real)
        return read[:, 0]


def after_cue(tokens: Tensor, real: Tensor) -> Tensor:
    """(B, n): the tokens that stand after one that is the same as the last of the text."""
    last = (places(real) * real).amax(-1, keepdim=True).long()
    cue = tokens.gather(-1, last)
    before = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], -1)
    return (before == cue) & real & (places(real) <= last)


def by_cue(inputs: Inputs) -> Tensor:
    return after_cue(inputs.tokens, inputs.real)


def evidence(inputs: Inputs) -> Tensor:
    return is_evidence(inputs.tokens) & inputs.units


def turned(count: int) -> list[Instance]:
    return [Instance(one.tokens, 1 - (one.label or 0)) for one in texts(count)[0]]


def unmarked(count: int) -> list[Instance]:
    """Texts without evidence: noise decides, by a little."""
    draw = torch.Generator().manual_seed(4)
    return [Instance(torch.randperm(20, generator=draw)[: 7 + number % 6] + 1) for number in range(count)]


REASONS = (
    ("bottleneck", Bottleneck, loudest, "the output is the weighted mean; a word with more evidence gets more weight"),
    ("saturated softmax", Saturated, loudest, "one word has all of the weight; the softmax has no gradient"),
    ("copy", Copy, evidence, "attends to evidence words by their type and copies them"),
    ("redundant heads", Redundant, loudest, "four identical heads; any one can be removed, all four cannot"),
    ("one dead head", OneDeadHead, loudest, "two heads; the output uses one, the other is nearly uniform and unused"),
    ("division of labour", Division, evidence, "one head per class; the output is their sum"),
    (
        "used by a later layer",
        UsedLater,
        loudest,
        "layer 0 is judged: it collects the evidence, the next layer passes it on",
    ),
)

for _name, _make, _deciding, _says in REASONS:
    _at = AttentionSelector(layer=0) if _make is UsedLater else None
    of_words(_name, _make, True, _deciding, _says, selector=_at)
of_words(
    "shortcut",
    Shortcut,
    True,
    lambda inputs: loudest(inputs, 0.3, 4.0),
    "attends to a spurious mark and uses it: a faithful explanation of a wrong reason",
    lambda count: texts(count, marked=True)[0],
)
of_words("majority", Copy, True, evidence, "three evidence words share the weight and decide together", several)
of_words(
    "sparse ties", SparseTies, True, evidence, "sparsemax: the evidence words share all of the weight equally", several
)
of_words(
    "induction",
    Induction,
    True,
    by_cue,
    "an induction head: attends to what followed the earlier occurrence of the last word",
    cued,
)
of_words("inhibition", Inhibition, True, loudest, "the attended word is evidence for the other class", turned)
of_words(
    "sink on a special token",
    SinkOnStart,
    True,
    loudest,
    "most weight is on [START], whose value is 0; among the words the evidence has most",
    lambda count: started(texts(count)[0]),
)
of_words("graded", Graded, True, loudest, "every word is some evidence and gets weight in proportion", unmarked)
