"""A few instances to look at: typical ones, with several weights side by side."""

from collections.abc import Mapping, Sequence

import numpy as np

from .adapters.adapter import Adapter
from .artifacts import TextExample
from .attribution.importance import Importance

SHOWN = 4  # texts that a report shows of a test
LONGEST = 120  # tokens of such a text that are shown


def typical(values: np.ndarray, count: int = SHOWN) -> list[int]:
    """Places of the instances whose value is nearest to the median, so that nobody picks what looks best; of equally
    near ones the first."""
    left = np.flatnonzero(~np.isnan(values))
    if not len(left):
        return []
    away = np.abs(values[left] - np.median(values[left]))
    return [int(place) for place in left[np.argsort(away, kind="stable")[:count]]]


def examples(adapter: Adapter, places: Sequence[int], measures: Mapping[str, Importance]) -> list[TextExample]:
    """The texts at these places with what each measure says of their tokens, and the rationale where there is one."""
    made = []
    for place in places:
        one, inputs = adapter.instances[place], adapter.inputs([place])
        weights = {name: of(adapter, inputs)[0].tolist() for name, of in measures.items()}
        if one.marks is not None:
            weights["marked by people"] = one.marks.double().tolist()
        made.append(cut(TextExample(one.name or str(place), one.shown, weights, facts(adapter, place))))
    return made


def cut(text: TextExample, by: str = "") -> TextExample:
    """Of a long text the stretch with the most weight by one measure; by the last unless told, what people marked."""
    count = len(text.words)
    if count <= LONGEST:
        return text
    chosen = text.weights[by or list(text.weights)[-1]]
    sums = np.convolve(np.abs([x or 0.0 for x in chosen]), np.ones(LONGEST), "valid")
    first = int(sums.argmax())
    inside = slice(first, first + LONGEST)
    weights = {name: list(some)[inside] for name, some in text.weights.items()}
    shown = {"shown": f"tokens {first + 1} to {first + LONGEST} of {count}"}
    return TextExample(text.name, text.words[inside], weights, {**text.facts, **shown})


def facts(adapter: Adapter, place: int) -> dict[str, str]:
    """What the model says of an instance, and what is right."""
    told = adapter.predict(adapter.inputs([place]))[0]
    best = int(told.argmax())
    found = {"the model says": f"{adapter.called(best)} ({float(told[best]):.3f})"}
    label = adapter.instances[place].label
    return found if label is None else found | {"right is": adapter.called(label)}
