"""What a judge gives to a model: instances side by side, with units that can be taken away."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


class NotApplicable(ValueError):
    """A test has no meaning for this model or these data; the message says why."""


@dataclass(frozen=True, eq=False)
class Instance:
    """One text: tokens (n,) as numbers, its label, and which tokens are special, (n,) bool: [CLS], [SEP], <s>.

    Special tokens are never taken away and never counted: units are the others.

    marks   (n,) bool: the tokens that people called the reason; None where nobody was asked
    words   what each token is called, for those who look at it
    places  (n,): the word of the text that each token is a piece of, -1 of a special one; None: every token is a word
    name    what the instance is called in its data set
    total   how many words the text has, where the model reads only the first of them
    reading (words of the text,): of its reading time, each word's share; None where nobody read it
    """

    tokens: Tensor
    label: int | None = None
    special: Tensor | None = None
    marks: Tensor | None = None
    words: tuple[str, ...] | None = None
    places: Tensor | None = None
    name: str = ""
    total: int | None = None
    reading: Tensor | None = None

    def __post_init__(self) -> None:
        if self.tokens.ndim != 1 or self.tokens.is_floating_point() or self.tokens.numel() == 0:
            raise ValueError(
                f"Instance(tokens) has shape {tuple(self.tokens.shape)} of {self.tokens.dtype}, expected "
                "(n,) whole numbers, n 1 or more."
            )
        for name in ("special", "marks"):
            given = getattr(self, name)
            if given is not None and (given.shape != self.tokens.shape or given.dtype != torch.bool):
                raise ValueError(
                    f"Instance({name}) has shape {tuple(given.shape)} of {given.dtype}, expected "
                    f"{tuple(self.tokens.shape)} of torch.bool."
                )
        for name in ("words", "places"):
            given = getattr(self, name)
            if given is not None and len(given) != len(self.tokens):
                raise ValueError(f"Instance({name}) has {len(given)}, expected {len(self.tokens)}: one for each token.")

    @property
    def truncated(self) -> bool:
        """Whether the text has words of which the model reads nothing."""
        read = len(self.tokens) if self.places is None else int(self.places.max()) + 1
        return self.total is not None and read < self.total

    @property
    def shown(self) -> tuple[str, ...]:
        """A word for each token; its number where it has no other."""
        return tuple(map(str, self.tokens.tolist())) if self.words is None else self.words


@dataclass(frozen=True, eq=False)
class Inputs:
    """Instances side by side: tokens (B, n), real (B, n) where there is a token, special (B, n).

    origin (B, n) is the place that each token had before anything was taken away.
    """

    tokens: Tensor
    real: Tensor
    special: Tensor
    origin: Tensor

    @staticmethod
    def of(instances: Sequence[Instance], device: "torch.device | str | None" = None) -> "Inputs":
        tokens = pad_sequence([one.tokens for one in instances], batch_first=True)
        lengths = torch.tensor([len(one.tokens) for one in instances])
        place = torch.arange(tokens.shape[1]).expand(tokens.shape)
        special = pad_sequence(
            [
                torch.zeros(len(one.tokens), dtype=torch.bool) if one.special is None else one.special
                for one in instances
            ],
            batch_first=True,
        )
        made = Inputs(tokens, place < lengths[:, None], special, place)
        return made if device is None else Inputs(*(x.to(device) for x in vars(made).values()))

    def __len__(self) -> int:
        return self.tokens.shape[0]

    @property
    def units(self) -> Tensor:
        """(B, n) bool: what may be taken away and is counted."""
        return self.real & ~self.special

    def chosen(self, index: Tensor) -> "Inputs":
        """Items index[b] as item b."""
        return Inputs(*(x.index_select(0, index) for x in vars(self).values()))

    def repeated(self, times: int) -> "Inputs":
        """All items, and all of them again: item b is at b, B + b, 2 B + b, ..."""
        return Inputs(*(x.repeat(times, 1) for x in vars(self).values()))

    @property
    def lengths(self) -> Tensor:
        """(B,): the place after the last token of each."""
        return ((torch.arange(self.real.shape[1], device=self.real.device) + 1) * self.real).amax(-1)

    def cut(self, longest: int) -> "Inputs":
        """The first `longest` places."""
        return Inputs(*(x[:, :longest] for x in vars(self).values()))

    def without(self, gone: Tensor, removal: str = "delete", blank: int | None = None) -> "Inputs":
        """Some units taken away: gone (B, n) bool.

        delete   the text is shorter, later tokens move up
        mask     nobody may see the token; the others stay where they are
        blank    another token, number `blank`, stands in its place
        """
        gone = gone & self.units
        if removal == "blank":
            assert blank is not None
            return replace(self, tokens=self.tokens.masked_fill(gone, blank))
        if removal == "mask":
            return replace(self, real=self.real & ~gone)
        keep = self.real & ~gone
        order = (~keep).long().sort(dim=-1, stable=True).indices  # what is kept comes first, in its order
        order = order[:, : max(1, int(keep.sum(-1).max()))]
        left = torch.arange(order.shape[1], device=keep.device) < keep.sum(-1, keepdim=True)
        moved = {name: x.gather(-1, order) for name, x in vars(self).items() if name != "real"}
        return Inputs(**moved | {"real": left, "tokens": moved["tokens"].masked_fill(~left, 0)})
