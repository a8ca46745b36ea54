"""Texts: BLEU, METEOR, perplexity, word and phone error rates."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from torch import Tensor

from regard.core.errors import lacking

from ..statistics.intervals import mean
from .metric import Measured, percent, ratio

References = str | Sequence[str]


def translation(said: Sequence[str], wanted: Sequence[References], lower: bool = False) -> list[Measured]:
    """BLEU of the corpus (sacrebleu, tokens 13a) and the mean METEOR of its sentences (nltk).

    wanted: one reference a sentence, or several. BLEU of a corpus without any reference word is undefined. METEOR takes
    words between blanks, in lower case: matches are exact, by stem and, where WordNet is installed, by synonym; no
    match is 0, and a sentence without words on either side is undefined.
    """
    from sacrebleu.metrics import BLEU

    references = [[one] if isinstance(one, str) else list(one) for one in wanted]
    metric = BLEU(lowercase=lower, effective_order=True)  # the order matters to a sentence's score, not to its counts
    parts = [metric.sentence_score(line, theirs) for line, theirs in zip(said, references, strict=True)]
    counts = np.array([[*part.counts, *part.totals, part.sys_len, part.ref_len] for part in parts], dtype=np.float64)

    def bleu(table: np.ndarray) -> float:
        sums = [int(total) for total in table.sum(0)]
        if sums[9] == 0:
            return float("nan")
        return float(BLEU.compute_bleu(sums[:4], sums[4:8], sums[8], sums[9], smooth_method="exp").score)

    meteors = np.array([meteor(line, theirs) for line, theirs in zip(said, references, strict=True)])
    says = "METEOR against the references is {}."
    return [
        Measured("BLEU", counts.reshape(-1, 10), bleu, "higher", "BLEU against the references is {} of 100.", "of 100"),
        Measured("METEOR", meteors, mean, "higher", says, f"exact, stem, {wordnet()[1]}", (0.0, 1.0)),
    ]


def meteor(said: str, wanted: Sequence[str]) -> float:
    """METEOR of a sentence: 10 P R / (R + 9 P), times 1 - 0.5 (chunks / matches)^3; the best over its references.

    nltk pairs repeated words greedily from the end, so that a word said twice may cost a chunk or two more than the
    alignment with the fewest chunks would. Banerjee & Lavie 2005.
    """
    try:
        from nltk.translate.meteor_score import meteor_score
    except ModuleNotFoundError as problem:
        raise lacking("METEOR", "nltk", "judge") from problem

    words, theirs = said.lower().split(), [one.lower().split() for one in wanted]
    if not words and not any(theirs):
        return float("nan")
    return float(meteor_score(theirs, words, preprocess=str, wordnet=wordnet()[0])) if words else 0.0


@cache
def wordnet() -> tuple[Any, str]:
    """NLTK's WordNet and its version in words; where its data are not installed, one that knows no synonym."""
    try:
        from nltk.corpus import wordnet as reader

        return reader, f"WordNet {reader.get_version()}"
    except (LookupError, ModuleNotFoundError):
        return NoSynonyms(), "no WordNet"


class NoSynonyms:
    """Stands where WordNet would: METEOR asks it for the synonyms of a word and is told none."""

    def synsets(self, word: str) -> list[Any]:
        return []


def language(said: Sequence[Tensor | np.ndarray], wanted: object = None) -> list[Measured]:
    """Perplexity, exp(-mean log p) over all tokens. said: for each text the natural log-probabilities of its tokens,
    padding left out; `log_probabilities` makes them of logits. Without any token it is undefined."""
    rows = [np.asarray(one, dtype=np.float64).ravel() for one in said]
    if any((row > 1e-6).any() for row in rows):
        raise ValueError(
            "language: said holds log-probabilities above 0: expected log p of each token, 0 or less; "
            "log_probabilities(logits, targets) makes them."
        )
    table = np.array([[-row.sum(), len(row)] for row in rows], dtype=np.float64).reshape(-1, 2)
    says = "The model is as uncertain as a uniform choice among {} tokens."
    return [Measured("perplexity", table, lambda x: float(np.exp(ratio(x))), "lower", says, scale="skewed")]


def log_probabilities(logits: Tensor, targets: Tensor, ignore: int = -100) -> list[np.ndarray]:
    """log p of each target that is not `ignore`: logits (texts, tokens, words), targets (texts, tokens)."""
    if logits.shape[:-1] != targets.shape or targets.dim() != 2:
        raise ValueError(
            f"log_probabilities: logits {tuple(logits.shape)}, targets {tuple(targets.shape)}; expected "
            "(texts, tokens, words) and (texts, tokens)."
        )
    kept = targets != ignore
    chosen = logits.double().log_softmax(-1).gather(-1, targets.where(kept, 0)[..., None])[..., 0]
    return [row[keep].detach().cpu().numpy() for row, keep in zip(chosen, kept, strict=True)]


def speech(said: Sequence[str], wanted: Sequence[str]) -> list[Measured]:
    """Word error rate in percent, edits / words wanted, by jiwer; it may exceed 100."""
    return [_error_rate("word error rate", "words", said, wanted)]


def phones(said: Sequence[str], wanted: Sequence[str]) -> list[Measured]:
    """Phone error rate in percent: phones stand between blanks."""
    return [_error_rate("phone error rate", "phones", said, wanted)]


def _error_rate(name: str, unit: str, said: Sequence[str], wanted: Sequence[str]) -> Measured:
    from jiwer import process_words

    rows = []
    for line, reference in zip(said, wanted, strict=True):
        result = process_words(reference, line)
        length = len(reference.split())
        rows.append([result.substitutions + result.deletions + result.insertions, length])
    table = np.array(rows, dtype=np.float64).reshape(-1, 2)
    return Measured(name, table, percent(ratio), "lower", f"{{}} {unit} of 100 would have to be corrected.", "%")
