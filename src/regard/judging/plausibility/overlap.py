"""Does what is weighed most overlap with what people marked? The measures of ERASER."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..finding import Finding
from ..statistics.intervals import estimate, stream

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


def auprc(weights: ArrayLike, marks: ArrayLike) -> float:
    """Area under the curve of precision against recall over thresholds on the weights; chance is the share marked.

    By scikit-learn, the trapezoids of `auc(recall, precision)` as in ERASER. Undefined (NaN) where nothing or
    everything is marked.
    """
    from sklearn.metrics import auc, precision_recall_curve

    w, g = np.asarray(weights, dtype=np.float64), np.asarray(marks, dtype=bool)
    if w.shape != g.shape or w.ndim != 1:
        raise ValueError(f"auprc: weights have shape {w.shape}, marks {g.shape}: expected both (n,).")
    if g.all() or not g.any():
        return float("nan")
    precision, recall, _ = precision_recall_curve(g, w)
    return float(auc(recall, precision))


def token_counts(found: ArrayLike, marks: ArrayLike) -> np.ndarray:
    """(found and marked, found, found and marked, marked) tokens of one document."""
    f, g = np.asarray(found, dtype=bool), np.asarray(marks, dtype=bool)
    if f.shape != g.shape:
        raise ValueError(f"token_counts: found has shape {f.shape}, marks {g.shape}: expected the same.")
    both = float((f & g).sum())
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
    return float(np.mean([_f1(*row) for row in counts])) if len(counts) else float("nan")


def micro_f1(counts: np.ndarray) -> float:
    """F1 of the counts of all documents together."""
    return _f1(*counts.sum(0)) if len(counts) else float("nan")


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
    resamples: int = 1000,
) -> list[Finding]:
    """AUPRC, token F1 and IOU-F1 of weights against marked tokens, beside random weights and mere position.

    weights, marks: one (n,) a document. share: of tokens taken as found; else the mean share that people marked: the
    amount is theirs, the place the model's. Documents without any mark are left out and counted.
    """
    if len(weights) != len(marks):
        raise ValueError(f"judge_overlap: weights of {len(weights)} documents, but marks of {len(marks)}.")
    kept = [(np.asarray(w, dtype=np.float64), np.asarray(g, dtype=bool)) for w, g in zip(weights, marks, strict=True)]
    kept = [(w, g) for w, g in kept if g.any()]
    share = share or (float(np.mean([g.mean() for _, g in kept])) if kept else 1.0)
    draw = stream(seed, "random weights")
    chosen: dict[str, list[np.ndarray]] = {
        "": [w for w, _ in kept],
        "random": [draw.random(len(w)) for w, _ in kept],
        "first words": [-np.arange(len(w)) for w, _ in kept],
        "last words": [np.arange(len(w)) for w, _ in kept],
    }
    tables = {name: _tables(some, [g for _, g in kept], share) for name, some in chosen.items()}
    rules: dict[str, tuple[Callable[[np.ndarray], float], str]] = {
        "AUPRC": (
            lambda x: float(np.nanmean(x)) if (~np.isnan(x)).any() else float("nan"),
            "Ranked by weight, marked tokens come at an average precision of {value}.",
        ),
        "token F1": (macro_f1, "Tokens of most weight and marked tokens overlap by an F1 of {value}."),
        "token F1, micro": (micro_f1, "Over all documents together that overlap is {value}."),
        "IOU-F1": (macro_span_f1, "Passages of most weight match marked passages with an F1 of {value}."),
    }
    made = []
    for name, (statistic, says) in rules.items():
        result = estimate(tables[""][name], statistic, seed=seed, resamples=resamples)
        beside = {other: estimate(tables[other][name], statistic, resamples=1).value for other in chosen if other}
        if name == "AUPRC":
            beside["chance"] = estimate([float(g.mean()) for _, g in kept], resamples=1).value
        told = "Nothing was marked." if result.value is None else says.format(value=f"{result.value:.2f}")
        made.append(
            Finding(
                name,
                result.value,
                told,
                "higher",
                result.n,
                test="people",
                interval=result.interval,
                baselines=beside,
                undefined=len(marks) - result.n,
            )
        )
    return made


def _tables(weights: list[np.ndarray], marks: list[np.ndarray], share: float) -> dict[str, np.ndarray]:
    found = [top_marks(w, share) for w in weights]
    tokens = np.array([token_counts(f, g) for f, g in zip(found, marks, strict=True)]).reshape(-1, 4)
    passages = [span_counts(spans(f), spans(g)) for f, g in zip(found, marks, strict=True)]
    return {
        "AUPRC": np.array([auprc(w, g) for w, g in zip(weights, marks, strict=True)]),
        "token F1": tokens,
        "token F1, micro": tokens,
        "IOU-F1": np.array(passages).reshape(-1, 4),
    }


def _f1(right: float, found: float, matched: float, marked: float) -> float:
    precision, recall = (right / found if found else 0.0), (matched / marked if marked else 0.0)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _shared(one: Span, other: Span) -> float:
    both = max(0, min(one[1], other[1]) - max(one[0], other[0]))
    return both / (one[1] - one[0] + other[1] - other[0] - both) if both else 0.0
