"""Annotations of a page: human rationales over tokens, and the importance of heads."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

Rationale = Sequence[Any]
Sites = list[dict[str, Any]]


def rationale_payload(rationale: Rationale, sites: Sites) -> dict[str, Any]:
    """Spans [start, stop) of tokens, and the number of tokens if it is known.

    rationale   0 or 1 for each token, or spans of tokens
    """
    listed = rationale.tolist() if hasattr(rationale, "tolist") else list(rationale)
    if listed and all(isinstance(x, Sequence) for x in listed):
        spans, length = [_span(x) for x in listed], None
    else:
        if not listed or any(x not in (0, 1) for x in listed):
            raise ValueError(f"rationale={listed[:8]}: expected 0 or 1 for each token, or spans [(start, stop), ...].")
        spans, length = _runs(listed), len(listed)
    least = max((stop for _, stop in spans), default=0)
    sizes = sorted({site["m"] for site in sites})
    if not any(size == length if length is not None else least <= size for size in sizes):
        problem = f"{length} tokens are marked" if length is not None else f"a span ends at {least}"
        raise ValueError(
            f"rationale=: {problem}, and the maps have {', '.join(map(str, sizes))} columns. Mark the key "
            "tokens, special ones included."
        )
    if not spans:
        raise ValueError("rationale=: no token is marked, so there is nothing to compare with.")
    return {"spans": [list(x) for x in spans], "length": length}


def _span(x: Sequence[Any]) -> tuple[int, int]:
    if len(x) != 2 or not all(isinstance(y, int) for y in x) or not 0 <= x[0] < x[1]:
        raise ValueError(f"rationale has the span {tuple(x)}, expected whole numbers 0 <= start < stop.")
    return x[0], x[1]


def _runs(marks: Sequence[Any]) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    for place, mark in enumerate(marks):
        if mark and made and made[-1][1] == place:
            made[-1] = made[-1][0], place + 1
        elif mark:
            made.append((place, place + 1))
    return made


def add_importance(importance: Mapping[str, Sequence[float]], sites: Sites) -> None:
    """Add the importance of each head to its statistics."""
    by_name = {site["site"]: site for site in sites}
    for name, values in importance.items():
        listed = values.tolist() if hasattr(values, "tolist") else list(values)
        if name not in by_name:
            raise ValueError(f"importance= names {name!r}; the page has {', '.join(list(by_name)[:6])}.")
        if len(listed) != by_name[name]["heads"] or not all(isinstance(x, Real) for x in listed):
            raise ValueError(
                f"importance[{name!r}] has {len(listed)} values, expected a number for each of "
                f"{by_name[name]['heads']} heads."
            )
        for numbers, value in zip(by_name[name]["numbers"], listed, strict=True):
            numbers["importance"] = float(value) if abs(value) < float("inf") else None
