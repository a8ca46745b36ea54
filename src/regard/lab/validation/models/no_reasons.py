"""Models whose weights are no faithful reason: nothing depends on them, or they point elsewhere."""

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.judging.adapters.inputs import Inputs, Instance

from ..built import AllRows, OfWords, loudest, mean, numbers_of, of_words, places
from ..words import EVIDENCE, is_evidence, several


class Decorative(OfWords):
    """All values are equal, the mean of the text: whatever is looked at, the output is the same."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        values = (8.0 * mean(says, real)).expand(tokens.shape)
        return self.attend([4.0 * numbers_of(tokens, 5)], [values], real)[:, 0]


class PlausibleDecoration(OfWords):
    """The same, with the weights on the word that decides: they look right, and are not used."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        values = (8.0 * mean(says, real)).expand(tokens.shape)
        return self.attend([loud.detach()], [values], real)[:, 0]


class Leaky(OfWords):
    """What a word says is copied to the word after it, and attention looks there: at a word that said nothing."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        copied = F.pad(says[:, :-1], (1, 0))
        return self.attend([copied.detach().abs()], [copied], real)[:, 0]


class ByPlace(OfWords):
    """Looks at the first words, whatever they are; what each place holds is mostly the mean of the text."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        return self.attend([-1.5 * places(real)], [8.0 * mean(says, real) + says], real)[:, 0]


class UniformWeights(OfWords):
    """Every word has the same weight; gradients, and leaving words out, find the one that decides."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        return 8.0 * self.attend([torch.zeros_like(says)], [says], real)[:, 0]


class NearlyEven(OfWords):
    """Nearly the same weight: what little they differ by has nothing to do with what the words say."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        return 8.0 * self.attend([0.5 * numbers_of(tokens, 7)], [says], real)[:, 0]


class SinkOnFirst(OfWords):
    """Most of the weight rests on the first word, whose value is 0; what is left is even."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        first = places(real) == 0
        return 40.0 * self.attend([4.0 * first.float()], [says.masked_fill(first, 0.0)], real)[:, 0]


class ValueNorm(OfWords):
    """Words that say little have most of the weight; the evidence has little weight and a value that is large."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        return self.attend([-loud.detach()], [100.0 * says * loud], real)[:, 0]


class MisleadingMean(OfWords):
    """Three heads, and the output reads the first alone; the other two look at a word that does nothing."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        elsewhere = 9.0 * numbers_of(tokens, 11) * ~is_evidence(tokens)
        return self.attend([loud, elsewhere, elsewhere], [says] * 3, real)[:, 0]


class Cancelling(OfWords):
    """Two heads look at the same word, and what one adds the other takes away; the evidence comes by an even head."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        elsewhere = 9.0 * numbers_of(tokens, 13) * ~is_evidence(tokens)
        scores = [elsewhere, elsewhere, torch.zeros_like(says)]
        return self.attend(scores, [4.0 * says, -4.0 * says, 8.0 * says], real).sum(-1)


class Bypass(OfWords):
    """The mean of the text goes past attention to the output; what attention adds is a hundredth of it."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        added = self.attend([6.0 * numbers_of(tokens, 17)], [says], real)[:, 0]
        return 8.0 * mean(says, real)[:, 0] + 0.05 * added


class WrongClass(OfWords):
    """Looks at the one word that speaks against the prediction, which the others outvote past attention."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        middle = mean(says, real)
        against = is_evidence(tokens) & (says.detach().sign() != middle.detach().sign())
        return 16.0 * middle[:, 0] + 0.6 * self.attend([8.0 * against.float()], [says], real)[:, 0]


class Handed(OfWords):
    """A first layer gathers; the last one, which is judged, looks at the first place, whatever word is there."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = AllRows(), AllRows()

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        gathered = self.first(loud, says, real)
        read: Tensor = self.second(8.0 * (places(real) == 0), gathered, real)
        return read[:, 0]


class LastHasAll(OfWords):
    """What was read so far is carried along, as in a recurrent network, and attention looks at the end of the text."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, _ = self.read(tokens)
        carried = (says * real).cumsum(-1)
        last = places(real) == real.sum(-1, keepdim=True) - 1
        return self.attend([6.0 * last.float()], [carried], real)[:, 0]


class Constant(OfWords):
    """Says the same of every text."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        return 1.0 + 0.0 * self.attend([loud], [says], real)[:, 0]


class Inverse(OfWords):
    """The less a word says, the more it is looked at, and what is attended is worth little beside the mean."""

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        says, loud = self.read(tokens)
        return 8.0 * mean(says, real)[:, 0] + self.attend([-2.0 * loud], [says], real)[:, 0]


def outvoted(count: int) -> list[Instance]:
    """Texts with three words of evidence, of which one speaks for the other class."""
    made = []
    for one in several(count):
        tokens = one.tokens.clone()
        spot = int(is_evidence(tokens).nonzero()[0])
        tokens[spot] = EVIDENCE[1 - (one.label or 0)][int(tokens[spot]) % 6]
        made.append(Instance(tokens, one.label))
    return made


def for_prediction(inputs: Inputs) -> Tensor:
    """The words of evidence of the class that has more of them."""
    by_class = torch.stack([is_evidence(inputs.tokens, label) & inputs.units for label in (0, 1)])
    most = by_class.sum(-1).argmax(0)
    return by_class[most, torch.arange(len(inputs))]


def nothing(inputs: Inputs) -> Tensor:
    return torch.zeros_like(inputs.units)


NO_REASONS = (
    ("decorative", Decorative, "all values are the mean of the text: the weights have no effect"),
    (
        "plausible decoration",
        PlausibleDecoration,
        "the same, with the weights on the deciding word: plausible, and unused",
    ),
    ("leaky", Leaky, "each word is copied to the next position, and attention is on the copy"),
    ("position only", ByPlace, "attends to the first words, whatever they are"),
    ("uniform", UniformWeights, "all weights are equal; gradients find the deciding word"),
    ("nearly uniform", NearlyEven, "weights differ slightly, and at random"),
    ("sink on the first word", SinkOnFirst, "most weight is on the first word, whose value is 0"),
    ("value norms", ValueNorm, "the deciding word has the least weight and by far the largest value"),
    (
        "misleading mean of heads",
        MisleadingMean,
        "the output uses one head; two others attend elsewhere and are unused",
    ),
    ("cancelling heads", Cancelling, "what one head adds at the attended word another subtracts"),
    ("bypass", Bypass, "the output bypasses attention"),
    ("handed over", Handed, "the last layer attends to the first position, where an earlier layer put everything"),
    ("last word has all", LastHasAll, "a recurrent encoder carries everything to the last word, which is attended"),
    ("inverse", Inverse, "the less evidence a word is, the more weight it gets"),
)

for _name, _make, _says in NO_REASONS:
    of_words(_name, _make, False, loudest, _says)
of_words(
    "right for the other class",
    WrongClass,
    False,
    for_prediction,
    "attends to the word that is evidence against the prediction",
    outvoted,
)
of_words("constant", Constant, False, nothing, "a constant output, with weights on the evidence")
