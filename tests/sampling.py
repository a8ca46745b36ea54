"""Which cases of a long product `make test` runs; `make test-slow` runs the others.

    @pytest.mark.covered      a few cases, in which each value of each parameter occurs
    @pytest.mark.covered(3)   each value in three of them, or in all that it has
    @pytest.mark.slow         none: a test, or one case of it
    mostly_slow(NAMES, ...)   the named ones

What is left out has the marker `slow`. A new score or backend is in the sample as soon as it is in the product.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

Case = tuple[tuple[str, str], ...]  # (parameter, value), each by its name


def covering(cases: Sequence[Case], times: int = 1) -> set[int]:
    """Places of few cases that have each value `times` times; always the same ones.

    Greedy: the next case is one that has most of what is still missing, the first of those that are equally good.
    """
    missing = {value: min(times, count) for value, count in Counter(v for case in cases for v in case).items()}
    left, taken = list(range(len(cases))), set()
    while any(missing.values()):
        best = max(left, key=lambda place: (sum(missing[value] > 0 for value in cases[place]), -place))
        left.remove(best)
        taken.add(best)
        for value in cases[best]:
            missing[value] = max(0, missing[value] - 1)
    return taken


def case_of(item: pytest.Item) -> Case:
    """A test's parameters and what stands for their values; an axis of several arguments counts as each of them."""
    spec = getattr(item, "callspec", None)
    if spec is None:
        return ()
    plain = str, int, float
    return tuple(
        (name, f"{value}" if isinstance(value, plain) else f"#{id(value)}") for name, value in spec.params.items()
    )


def mostly_slow(cases: Iterable[str], *quick: str) -> list[Any]:
    """The names of cases as parameters; all but the quick ones are left to `make test-slow`."""
    cases = list(cases)
    assert set(quick) <= set(cases), "a quick case that is none"
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]


def mark_the_slow(items: Sequence[pytest.Item]) -> None:
    """Give what is left out of the samples its marker."""
    products = defaultdict(list)
    for item in items:
        if item.get_closest_marker("covered"):
            products[item.nodeid.partition("[")[0]].append(item)
    for product in products.values():
        marker = product[0].get_closest_marker("covered")
        taken = covering([case_of(item) for item in product], *marker.args)
        for place, item in enumerate(product):
            if place not in taken:
                item.add_marker(pytest.mark.slow)
