"""What does "it" attend to? Pairs of sentences in which one word turns what "it" stands for.

    The animal did not cross the street because it was too tired.    it: the animal
    The animal did not cross the street because it was too wide.     it: the street

A head that shows what "it" means gives the first noun more weight in the first sentence, the second in the second.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import regard
from regard.recording.pretrained import record_run
from regard.recording.record import Record
from regard.views.page import maps_of
from regard.views.payload.site_payload import join_steps
from regard.views.terminal.what_stands_out import most_apart

PAIRS = (  # a sentence, its two last words, and the noun that each makes of "it"
    ("The animal did not cross the street because it was too {}.", ("tired", "wide"), ("animal", "street")),
    ("The trophy did not fit into the suitcase because it was too {}.", ("big", "small"), ("trophy", "suitcase")),
    ("The dog chased the car until it {}.", ("barked", "crashed"), ("dog", "car")),
    ("The truck passed the bus because it was {}.", ("fast", "slow"), ("truck", "bus")),
    ("The hammer broke the glass because it was {}.", ("heavy", "fragile"), ("hammer", "glass")),
    ("The cat did not drink the milk because it was {}.", ("full", "sour"), ("cat", "milk")),
    ("The bee landed on the flower because it was {}.", ("hungry", "red"), ("bee", "flower")),
    ("The ball broke the window because it was {}.", ("hard", "thin"), ("ball", "window")),
    ("The horse pulled the cart because it was {}.", ("strong", "stuck"), ("horse", "cart")),
    ("The ship hit the rock because it was {}.", ("turning", "hidden"), ("ship", "rock")),
    ("The child could not open the bottle because it was too {}.", ("weak", "tight"), ("child", "bottle")),
    ("The bird did not eat the fruit because it was {}.", ("shy", "rotten"), ("bird", "fruit")),
)
CHANCE = 0.25  # of being right in both sentences of a pair by tossing a coin for each


@dataclass(frozen=True)
class PronounResults:
    """weights (pairs, 2 sentences, 2 nouns, sites, heads) from "it" to each noun; shown: the first pair's records."""

    weights: Tensor
    shown: tuple[Record, Record]

    @property
    def head(self) -> tuple[int, int]:
        """The site and head that `regard look` names for the first sentence, by its weights apart from neighbours."""
        found, _ = most_apart(join_steps(maps_of(self.shown[0])))
        assert found is not None
        return found.site, found.head

    def right(self) -> Tensor:
        """(sites, heads): the pairs in which a head gives the noun that is meant more weight, in both sentences."""
        first, second = self.weights[:, 0], self.weights[:, 1]
        return ((first[:, 0] > first[:, 1]) & (second[:, 1] > second[:, 0])).sum(0)


def study(model: Any, tokenizer: Any) -> PronounResults:
    """Every pair, recorded as the model runs it."""
    weights = [[_from_it(model, tokenizer, text.format(end), nouns) for end in ends] for text, ends, nouns in PAIRS]
    text, ends, _ = PAIRS[0]
    shown = [record_run(model, tokenizer, text.format(end), "minilm")[0] for end in ends]
    return PronounResults(torch.stack([torch.stack(pair) for pair in weights]), (shown[0], shown[1]))


@torch.no_grad()
def _from_it(model: Any, tokenizer: Any, text: str, nouns: tuple[str, str]) -> Tensor:
    """(2, sites, heads): the weights from "it" to the two nouns; each of the three is one token."""
    given = tokenizer(text, return_tensors="pt")
    tokens = tokenizer.convert_ids_to_tokens(given["input_ids"][0].tolist())
    row, columns = tokens.index("it"), [tokens.index(noun) for noun in nouns]
    with regard.record(model) as rec:
        model(**given)
    return torch.stack([amap[0].row(row)[:, columns] for amap in rec.maps.values()]).permute(2, 0, 1)
