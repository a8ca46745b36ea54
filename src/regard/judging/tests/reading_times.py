"""Are the words that receive weight the words that people read longer? For every instance with reading times."""

import numpy as np
from torch import Tensor

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs, Instance, NotApplicable
from ..eraser import by_word, word_of
from ..finding import Finding
from ..plausibility.fixations import judge_fixations, partial_rank_correlation
from ..registry import asks
from ..statistics.comparison import compare
from ..statistics.divergence import over_units
from ..statistics.intervals import stream
from ..wording import amount

MARKS = "#▁Ġ"  # how tokenizers mark the pieces of a word


@asks("Do people read words with more weight longer?", aspect="plausibility")
def reading(adapter: Adapter, *, seed: int = 0) -> list[Finding]:
    """Spearman's rho of the judged weight of each word, its pieces added up, and its share of the reading time, the
    mean over texts; beside word length, place and random weights. Then the same where word length is known (partial
    correlation). Texts whose weights or times are all alike are left out. Hollenstein & Beinborn 2021.
    """
    chosen = [place for place, one in enumerate(adapter.instances) if one.reading is not None]
    if not chosen:
        raise NotApplicable("No instance has reading times.")

    def measure(inputs: Inputs) -> list[Tensor]:
        return list(over_units(adapter.attention(inputs), inputs.units).cpu())

    found = adapter.each(measure)
    some = [adapter.instances[place] for place in chosen]
    weights = [by_word(one, found[place]) for one, place in zip(some, chosen, strict=True)]
    times = [one.reading.double().numpy() for one in some if one.reading is not None]
    cut = [min(len(w), len(t), _read(one)) for w, t, one in zip(weights, times, some, strict=True)]
    weights, times = ([row[:end] for row, end in zip(rows, cut, strict=True)] for rows in (weights, times))
    length = [_lengths(one)[:end] for one, end in zip(some, cut, strict=True)]
    draw = stream(seed, "random weights")
    beside = {
        "word length": length,
        "later words": [np.arange(end, dtype=np.float64) for end in cut],
        "random": [draw.random(end) for end in cut],
    }
    left = [partial_rank_correlation(w, t, z) for w, t, z in zip(weights, times, length, strict=True)]
    known = compare(left, {"chance": 0.0}, scale=(-1.0, 1.0), seed=seed)
    says = "undefined: no text has four words that weights, reading times and lengths all rank."
    if known.value is not None:
        says = (
            "With word length controlled for, weights and reading times have a rank correlation of "
            f"{amount(known.value, 2)}."
        )
    return [
        *judge_fixations(weights, times, baselines=beside, seed=seed),
        Finding.of(
            known,
            name="rank correlation, word length known",
            says=says,
            better="higher",
            test="people",
            unit="partial Spearman rho",
        ),
    ]


def _read(one: Instance) -> int:
    """How many words the model reads."""
    return int(word_of(one).max()) + 1


def _lengths(one: Instance) -> np.ndarray:
    """(words,): the letters of each word."""
    words = word_of(one).tolist()
    found = np.zeros(max(words) + 1)
    for piece, place in zip(one.shown, words, strict=True):
        if place >= 0:
            found[place] += len(piece.strip(MARKS))
    return found
