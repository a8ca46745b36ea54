"""Does what is weighed most overlap with what people marked? The measures of ERASER."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ..finding import Finding
from ..statistics.comparison import compare
from ..statistics.intervals import Statistic, mean, stream
from ..statistics.scale import Scale
from ..wording import amount

DRAWS = 20  # random orders beside each figure
TIES = 10  # orders in which equal weights are put, where their expectation has no formula
Span = tuple[int, int]  # first token, and the one after the last


def spans(marks: ArrayLike) -> list[Span]:
    """Runs of marked tokens: [0, 1, 1, 0, 1]  ->  [(1, 3), (4, 5)]."""
    steps = np.diff(np.concatenate([[0], np.asarray(marks, dtype=bool).astype(int), [0]]))
    starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    return [(int(a), int(b)) for a, b in zip(starts, ends, strict=True)]


def top_marks(weights: ArrayLike, share: float) -> np.ndarray:
    """The max(1, ceil(share n)) tokens of most weight, as marks; of equal weights the first."""
    w = np.asarray(weights, dtype=np.float64)
    if not 0 < share <= 1 or w.ndim != 1:
        raise ValueError(f"top_marks(weights of shape {w.shape}, share={share}): expected (n,) and 0 < share <= 1.")
    count = min(len(w), max(1, int(np.ceil(share * len(w) - 1e-9))))  # 0.1 * 30 is 3, not 4
    marks = np.zeros(len(w), dtype=bool)
    marks[np.argsort(-w, kind="stable")[:count]] = True
    return marks


def average_precision(weights: ArrayLike, marks: ArrayLike) -> float:
    """The mean over marked tokens of the precision at the rank of each, equal weights in any order: the expectation.

        AP = 1 / |G| sum_k P(token at rank k is marked) E[precision at k | it is]

    Within a tie of m tokens, r of them marked, after n tokens with p marked ones, rank n + k has the expectation
    r / m (p + 1 + (k - 1) (r - 1) / (m - 1)) / (n + k). Constant weights have what a random order has on average; an
    area by trapezoids gives them more. Undefined (NaN) where nothing or everything is marked. McSherry & Najork 2008.
    """
    w, g = _pair("average_precision", weights, marks)
    if g.all() or not g.any():
        return float("nan")
    _, tie = np.unique(-w, return_inverse=True)
    m, r = np.bincount(tie), np.bincount(tie, weights=g)
    start, before = np.cumsum(m) - m, np.cumsum(r) - r
    rank = np.arange(len(w))
    of = np.repeat(np.arange(len(m)), m)
    k = rank - start[of]  # 0 for the first of its tie
    more = k * (r[of] - 1) / np.maximum(m[of] - 1, 1)
    return float((r[of] / m[of] * (before[of] + 1 + more) / (rank + 1)).sum() / g.sum())


def auprc(weights: ArrayLike, marks: ArrayLike) -> float:
    """ERASER's AUPRC: the area under precision against recall by trapezoids, `auc(recall, precision)` of scikit-learn.

    It rewards ties: one threshold for all tokens draws a line from (0, 1), so that constant weights have about half of
    what is missing to 1. `average_precision` does not. Undefined (NaN) where nothing or everything is marked.
    """
    w, g = _pair("auprc", weights, marks)
    if g.all() or not g.any():
        return float("nan")
    order = np.argsort(-w, kind="stable")
    last = np.append(np.flatnonzero(np.diff(w[order])), len(w) - 1)  # the last token of each tie: a threshold
    right = np.cumsum(g[order])[last]
    precision, recall = np.append(1.0, right / (last + 1)), np.append(0.0, right / right[-1])
    return float((np.diff(recall) * (precision[1:] + precision[:-1]) / 2).sum())


def top_shares(weights: ArrayLike, share: float) -> np.ndarray:
    """(n,): how probably each token is among the max(1, ceil(share n)) of most weight, equal weights in any order."""
    w = np.asarray(weights, dtype=np.float64)
    count = int(top_marks(w, share).sum())
    if not count:
        return np.zeros(len(w))
    last = np.sort(w)[::-1][count - 1]
    above, level = w > last, w == last
    return above + level * ((count - above.sum()) / level.sum())


def token_counts(found: ArrayLike, marks: ArrayLike) -> np.ndarray:
    """(found and marked, found, found and marked, marked) tokens of one document; found: marks, or how probably each
    token is found (`top_shares`)."""
    f, g = np.asarray(found, dtype=np.float64), np.asarray(marks, dtype=bool)
    if f.shape != g.shape:
        raise ValueError(f"token_counts: found has shape {f.shape}, marks {g.shape}: expected the same.")
    both = float((f * g).sum())
    return np.array([both, f.sum(), both, g.sum()], dtype=np.float64)


def span_counts(found: Sequence[Span], marked: Sequence[Span], threshold: float = 0.5) -> np.ndarray:
    """(found spans that match, found spans, marked spans that are matched, marked spans) of one document.

    Two spans match when tokens in both / tokens in either reaches the threshold. ERASER counts the found ones for
    recall too, so that two halves of one marked span give a recall of 2; here a marked span is matched once.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"span_counts(threshold={threshold}): expected 0 < threshold <= 1.")

    def matches(one: Span, others: Sequence[Span]) -> bool:
        return any(_shared(one, other) >= threshold for other in others)

    return np.array(
        [
            sum(matches(one, marked) for one in found),
            len(found),
            sum(matches(one, found) for one in marked),
            len(marked),
        ],
        dtype=np.float64,
    )


def macro_f1(counts: np.ndarray) -> float:
    """The mean over documents of F1; a document with no match has 0. counts (documents, 4)."""
    return float(_f1(counts.T).mean()) if len(counts) else float("nan")


def micro_f1(counts: np.ndarray) -> float:
    """F1 of the counts of all documents together."""
    return float(_f1(counts.sum(0))) if len(counts) else float("nan")


def macro_span_f1(counts: np.ndarray) -> float:
    """F1 of the mean precision and the mean recall over documents, as ERASER's IOU-F1."""
    if not len(counts):
        return float("nan")
    right, found, matched, marked = counts.T
    precision = np.divide(right, found, out=np.zeros_like(right), where=found > 0).mean()
    recall = np.divide(matched, marked, out=np.zeros_like(matched), where=marked > 0).mean()
    return float(2 * precision * recall / (precision + recall)) if precision + recall else 0.0


def judge_overlap(
    weights: Sequence[ArrayLike],
    marks: Sequence[ArrayLike],
    share: float | None = None,
    seed: int = 0,
    resamples: int = 2000,
) -> list[Finding]:
    """Average precision, token F1, IOU-F1 and ERASER's AUPRC of weights against marked tokens.

    weights, marks: one (n,) a document. share: of tokens taken as found; else the mean share that people marked: the
    amount is theirs, the place the model's. Beside each figure stand the same weights in random orders, and mere
    position. Equal weights count in every order alike: by expectation, and for passages over ten orders that are drawn.
    Documents without any mark are left out and counted.
    """
    if len(weights) != len(marks):
        raise ValueError(f"judge_overlap: weights of {len(weights)} documents, but marks of {len(marks)}.")
    marked = [(np.asarray(w, dtype=np.float64), np.asarray(g, dtype=bool)) for w, g in zip(weights, marks, strict=True)]
    marked = [(w, g) for w, g in marked if g.any()]
    share = share or (float(np.mean([g.mean() for _, g in marked])) if marked else 1.0)
    draw = stream(seed, "random weights")
    own, gold = [w for w, _ in marked], [g for _, g in marked]
    of = overlaps(own, gold, share, seed)
    random = [overlaps([draw.permutation(w) for w in own], gold, share, seed, ties=1) for _ in range(DRAWS)]
    first, last = (overlaps([side * np.arange(len(w)) for w in own], gold, share, ties=1) for side in (-1, 1))
    made = []
    for name, (statistic, scale, says) in RULES.items():
        beside = {
            "random": np.stack([one[name] for one in random]),
            "first words": first[name],
            "last words": last[name],
        }
        found = compare(of[name], beside, statistic, scale=scale, seed=seed, resamples=resamples)
        if found.value is not None:
            told = says.format(value=amount(found.value, 2))
        elif not marked:
            told = "undefined: nothing was marked."
        else:
            told = "undefined: everything was marked."
        undefined = len(marks) - found.n
        made.append(
            Finding.of(replace(found, undefined=undefined), name=name, says=told, better="higher", test="people")
        )
    return made


RULES: dict[str, tuple[Statistic, Scale, str]] = {
    "average precision": (mean, (0.0, 1.0), "Ranked by weight, marked tokens come at an average precision of {value}."),
    "token F1": (macro_f1, (0.0, 1.0), "Tokens of most weight and marked tokens overlap by an F1 of {value}."),
    "token F1, micro": (micro_f1, (0.0, 1.0), "Over all documents together that overlap is {value}."),
    "IOU-F1": (macro_span_f1, (0.0, 1.0), "Passages of most weight match marked passages with an F1 of {value}."),
    "AUPRC (ERASER)": (
        mean,
        (0.0, 1.0),
        "The area under precision and recall by trapezoids, which rewards ties: {value}.",
    ),
}


def overlaps(
    weights: Sequence[np.ndarray], marks: Sequence[np.ndarray], share: float, seed: int = 0, ties: int = TIES
) -> dict[str, np.ndarray]:
    """By measure what each document contributes: (documents,), or counts (documents, 4)."""
    pairs = list(zip(weights, marks, strict=True))
    tokens = np.array([token_counts(top_shares(w, share), g) for w, g in pairs]).reshape(-1, 4)
    draw = stream(seed, "ties")
    passages = []
    for w, g in pairs:
        some = [_top_in_any_order(w, share, draw) for _ in range(ties if len(np.unique(w)) < len(w) else 1)]
        passages.append(np.mean([span_counts(spans(f), spans(g)) for f in some], axis=0))
    return {
        "average precision": np.array([average_precision(w, g) for w, g in pairs]),
        "token F1": tokens,
        "token F1, micro": tokens,
        "IOU-F1": np.array(passages).reshape(-1, 4),
        "AUPRC (ERASER)": np.array([auprc(w, g) for w, g in pairs]),
    }


def _top_in_any_order(w: np.ndarray, share: float, draw: np.random.Generator) -> np.ndarray:
    order = draw.permutation(len(w))
    marks = np.zeros(len(w), dtype=bool)
    marks[order] = top_marks(w[order], share)
    return marks


def _pair(name: str, weights: ArrayLike, marks: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    w, g = np.asarray(weights, dtype=np.float64), np.asarray(marks, dtype=bool)
    if w.shape != g.shape or w.ndim != 1:
        raise ValueError(f"{name}: weights have shape {w.shape}, marks {g.shape}: expected both (n,).")
    return w, g


def _f1(counts: np.ndarray) -> np.ndarray:
    """(...): F1 of (right, found, matched, marked), (4, ...); 0 where nothing matches."""
    counts = np.asarray(counts, dtype=np.float64)
    precision, recall = (
        np.divide(right, of, out=np.zeros_like(right), where=of > 0) for right, of in (counts[:2], counts[2:])
    )
    below = precision + recall
    return np.divide(2 * precision * recall, below, out=np.zeros_like(below), where=below > 0)


def _shared(one: Span, other: Span) -> float:
    both = max(0, min(one[1], other[1]) - max(one[0], other[0]))
    return both / (one[1] - one[0] + other[1] - other[0] - both) if both else 0.0
