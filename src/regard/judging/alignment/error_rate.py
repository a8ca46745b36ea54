"""Alignment error rate: do links agree with those that people drew?"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.data.aligned_pair import AlignedPair

from ..finding import Better, Finding
from ..statistics.comparison import compare
from ..statistics.intervals import stream
from .word_links import Link, diagonal_links, random_links


def error_counts(links: Iterable[Link], sure: Iterable[Link], possible: Iterable[Link]) -> np.ndarray:
    """(|A & S|, |A & P|, |A|, |S|) of one pair; every sure link counts as possible."""
    found, must = frozenset(links), frozenset(sure)
    may = must | frozenset(possible)
    return np.array([len(found & must), len(found & may), len(found), len(must)], dtype=np.float64)


def soft_counts(weights: Tensor | np.ndarray, sure: Iterable[Link], possible: Iterable[Link]) -> np.ndarray:
    """The same counts with weights for links: weights (targets, sources), sums of weights on sure and possible pairs.

    For weights of 0 and 1 they are `error_counts` of the links that are 1.
    """
    w = torch.as_tensor(weights).detach().to(torch.float64).cpu().numpy()
    must = frozenset(sure)
    may = must | frozenset(possible)
    on = [sum(w[t, s] for s, t in sorted(links)) for links in (must, may)]
    return np.array([*on, w.sum(), len(must)], dtype=np.float64)


def error_rate(counts: np.ndarray) -> float:
    """Alignment error rate of a corpus: counts (pairs, 4) as `error_counts` or `soft_counts` give them.

        AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)

    0 when S <= A <= P, 1 when A and P share nothing; undefined (NaN) without any link in A and S. It compares sets of
    links and is no distance between weights. Och & Ney 2003; with weights for links (SAER) Tu et al. 2016.
    """
    on_sure, on_possible, found, sure = counts.sum(0)
    return 1 - (on_sure + on_possible) / (found + sure) if found + sure else float("nan")


def precision(counts: np.ndarray) -> float:
    """|A & P| / |A|: the share of links found that may be there."""
    _, on_possible, found, _ = counts.sum(0)
    return on_possible / found if found else float("nan")


def recall(counts: np.ndarray) -> float:
    """|A & S| / |S|: the share of sure links that were found."""
    on_sure, _, _, sure = counts.sum(0)
    return on_sure / sure if sure else float("nan")


DRAWS = 10  # sets of random links beside each figure

MEASURES: dict[str, tuple[Callable[[np.ndarray], float], Better, str]] = {
    "alignment error rate": (error_rate, "lower", "Against links that people drew the error rate is {value}."),
    "precision": (precision, "higher", "{value} of the links found are ones that people allow."),
    "recall": (recall, "higher", "{value} of the links that people are sure of were found."),
}


def judge_alignment(
    links: Sequence[Iterable[Link]], gold: Sequence[AlignedPair], seed: int = 0, resamples: int = 2000
) -> list[Finding]:
    """Error rate, precision and recall of links against gold, in percent, beside the diagonal and random links.

    links: for each pair of `gold`, (source, target) from 0. Intervals: pairs are resampled.
    """
    if len(links) != len(gold):
        raise ValueError(f"judge_alignment: links for {len(links)} pairs, but gold has {len(gold)}.")
    for place, (some, pair) in enumerate(zip(links, gold, strict=True)):
        for s, t in some:
            if not (0 <= s < len(pair.source) and 0 <= t < len(pair.target)):
                raise ValueError(
                    f"judge_alignment: link {(s, t)} of pair {place} points out of its {len(pair.source)} "
                    f"source and {len(pair.target)} target words: links are (source, target) from 0; "
                    "turned() puts links of the reverse direction right."
                )
    draw = stream(seed, "random links")
    sizes = [(len(pair.source), len(pair.target)) for pair in gold]
    beside = {
        "diagonal": corpus_counts([diagonal_links(*size) for size in sizes], gold),
        "random": np.stack([corpus_counts([random_links(*size, draw) for size in sizes], gold) for _ in range(DRAWS)]),
    }
    return _findings(corpus_counts(links, gold), beside, "", seed, resamples)


def judge_soft_alignment(
    weights: Sequence[Tensor | np.ndarray], gold: Sequence[AlignedPair], seed: int = 0, resamples: int = 2000
) -> list[Finding]:
    """The same with the weights themselves, (targets, sources) a pair, beside equal weights: no threshold, no argmax.

    A row that spreads its weight over ten words pays for it, which the error rate of its argmax does not see.
    """
    if len(weights) != len(gold):
        raise ValueError(f"judge_soft_alignment: weights of {len(weights)} pairs, but gold has {len(gold)}.")
    for place, (w, pair) in enumerate(zip(weights, gold, strict=True)):
        if tuple(w.shape) != (len(pair.target), len(pair.source)):
            raise ValueError(
                f"judge_soft_alignment: weights of pair {place} have shape {tuple(w.shape)}, expected "
                f"{(len(pair.target), len(pair.source))} = (targets, sources)."
            )
    counts = _soft(weights, gold)
    equal = [np.full((len(pair.target), len(pair.source)), 1 / max(1, len(pair.source))) for pair in gold]
    return _findings(counts, {"uniform": _soft(equal, gold)}, "soft ", seed, resamples)


def corpus_counts(links: Sequence[Iterable[Link]], gold: Sequence[AlignedPair]) -> np.ndarray:
    """`error_counts` of each pair, (pairs, 4). Of several seeds, stacked, `estimate` with `error_rate` crosses them."""
    made = [error_counts(some, pair.sure, pair.possible) for some, pair in zip(links, gold, strict=True)]
    return np.stack(made) if made else np.zeros((0, 4))


def _soft(weights: Sequence[Tensor | np.ndarray], gold: Sequence[AlignedPair]) -> np.ndarray:
    made = [soft_counts(w, pair.sure, pair.possible) for w, pair in zip(weights, gold, strict=True)]
    return np.stack(made) if made else np.zeros((0, 4))


def _findings(
    counts: np.ndarray, beside: dict[str, np.ndarray], prefix: str, seed: int, resamples: int
) -> list[Finding]:
    found = []
    for name, (measure, better, says) in MEASURES.items():
        result = compare(counts, beside, _percent(measure), seed=seed, resamples=resamples)
        told = (
            "undefined: there is no link to judge."
            if result.value is None
            else says.format(value=f"{result.value:.1f} %")
        )
        found.append(
            Finding.of(
                result,
                name=prefix + name,
                says=told,
                better=better,
                test="word alignment",
                unit="%",
            )
        )
    return found


def _percent(measure: Callable[[np.ndarray], float]) -> Callable[[np.ndarray], float]:
    return lambda counts: 100 * measure(counts)
