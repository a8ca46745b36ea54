"""Models that are built by hand, so that it is known whether their weights are a reason, and which units decide."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.name_registry import read_folder
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.inputs import Inputs, Instance

from .words import is_evidence, strengths, texts

Deciding = Callable[[Inputs], Tensor]


@dataclass(frozen=True)
class BuiltModel:
    """A model of known truth.

    name      what it is called
    adapter   (instances) -> the model with texts, or nodes, that it is judged on
    faithful  whether its weights are a faithful reason: the prediction changes with them, and the unit of most weight
              is one that decides for the prediction
    deciding  inputs -> (B, n) bool: the units that decide, by construction
    says      in a sentence what it does, and what is true of its weights
    """

    name: str
    adapter: Callable[[int], Adapter]
    faithful: bool
    deciding: Deciding
    says: str


MODELS: dict[str, BuiltModel] = {}


def add(model: BuiltModel) -> None:
    """Adds a model; its name must be new."""
    if model.name in MODELS:
        raise ValueError(f"A model is called {model.name!r} already: choose another name.")
    MODELS[model.name] = model


@cache
def _read() -> None:
    from . import models

    read_folder(models.__name__, models.__path__)


def built_models() -> list[BuiltModel]:
    """All of them: those whose weights are a reason first."""
    _read()
    return sorted(MODELS.values(), key=lambda one: (not one.faithful, one.name))


def chosen_models(names: str = "") -> list[BuiltModel]:
    """Those with these names, commas between them; all where there are none."""
    there = built_models()
    some = [name.strip() for name in names.split(",") if name.strip()]
    for name in some:
        if name not in MODELS:
            raise ValueError(f"There is no model {name!r}: expected some of {', '.join(one.name for one in there)}.")
    return [one for one in there if one.name in some or not some]


def of_words(
    name: str,
    make: Callable[[], nn.Module],
    faithful: bool,
    deciding: Deciding,
    says: str,
    data: Callable[[int], Sequence[Instance]] = lambda count: texts(count)[0],
    selector: AttentionSelector | None = None,
) -> None:
    """Adds a model of tokens (B, n), real (B, n) -> the logit of class 1, (B,). People mark the evidence."""

    def adapter(count: int) -> Adapter:
        marked = [replace(one, marks=is_evidence(one.tokens)) for one in data(count)]
        return Adapter(make().eval(), marked, selector=selector)

    add(BuiltModel(name, adapter, faithful, deciding, says))


class OneRow(nn.Module):
    """Scores (B, H, n) and values (B, H, n) -> the weighted means of values (B, H): a row of softmax attention."""

    def forward(self, scores: Tensor, values: Tensor, real: Tensor) -> Tensor:
        k, v = scores[..., None], values[..., None]
        made = F.scaled_dot_product_attention(torch.ones_like(k[:, :, :1]), k, v, real[:, None, None], scale=1.0)
        return made[..., 0, 0]


class AllRows(nn.Module):
    """The same with a row for each token, all of them alike: (B, n) and (B, n) -> (B, n)."""

    def forward(self, scores: Tensor, values: Tensor, real: Tensor) -> Tensor:
        k, v = scores[:, None, :, None], values[:, None, :, None]
        made = F.scaled_dot_product_attention(torch.ones_like(k), k, v, real[:, None, None], scale=1.0)
        return made[:, 0, :, 0]


class OfWords(nn.Module):
    """A model of words: what each says is one number of its vector, how loud it is another; `heads` rows of weights.

    A model defines scores(...) and values(...), each (B, H, n), and how heads are joined; by default their sum.
    """

    def __init__(self, evidence: float = 4.0, marks: float = 0.3):
        super().__init__()
        says = strengths(evidence, marks)
        self.vectors = nn.Embedding.from_pretrained(torch.stack([says, says.abs()], -1), freeze=False)
        self.attention = OneRow()

    def read(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """What each token says and how loud it is, (B, n) each."""
        says, loud = self.vectors(tokens).unbind(-1)
        return says, loud

    def attend(self, scores: Sequence[Tensor], values: Sequence[Tensor], real: Tensor) -> Tensor:
        """(B, H) of a score and a value (B, n) for each head."""
        made: Tensor = self.attention(torch.stack(list(scores), 1), torch.stack(list(values), 1), real)
        return made


def mean(values: Tensor, real: Tensor) -> Tensor:
    """(B, 1): over the tokens of each text."""
    return (values * real).sum(-1, keepdim=True) / real.sum(-1, keepdim=True)


def places(real: Tensor) -> Tensor:
    """(B, n): the place of each token among those of its text, from 0."""
    return (real.long().cumsum(-1) - 1).float()


def numbers_of(tokens: Tensor, seed: int) -> Tensor:
    """A number between 0 and 1 for each word, drawn once: the same word has the same number in every text."""
    drawn = torch.rand(64, generator=torch.Generator().manual_seed(seed))
    return drawn[tokens]


def loudest(inputs: Inputs, evidence: float = 4.0, marks: float = 0.3) -> Tensor:
    """The unit of each text that says most."""
    loud = strengths(evidence, marks).abs()[inputs.tokens].masked_fill(~inputs.units, -1.0)
    return loud == loud.amax(-1, keepdim=True)
