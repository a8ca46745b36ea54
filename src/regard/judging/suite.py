"""The suite: every test that a report runs, by name. A test enlists where it is defined, see registry.py."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..core.errors import Refused
from ..core.name_registry import read_folder
from . import tests
from .adapters.adapter import Adapter
from .adapters.inputs import NotApplicable
from .artifacts import Artifact, collect_artifacts, from_dict
from .finding import Finding
from .registry import ENLISTED, Aspect, Judge

# The order in which a report tells them; whoever is not named here comes after, in the order of names.
ORDER = (
    "task",
    "translation",
    "alignment",
    "ablation",
    "heads",
    "places",
    "correlation",
    "permutation",
    "adversary",
    "faithfulness",
    "layers",
    "everywhere",
    "removals",
    "importances",
    "infidelity",
    "agreement",
    "rationales",
    "reading",
    "fixations",
    "fidelity",
    "reasons",
)


def all_tests() -> list[Judge]:
    """Every test, in the order in which a report tells them."""
    _read()
    return sorted(
        ENLISTED.values(), key=lambda one: (ORDER.index(one.name) if one.name in ORDER else len(ORDER), one.name)
    )


@cache
def _read() -> None:
    read_folder(tests.__name__, tests.__path__)


@dataclass(frozen=True)
class Judged:
    """What came of one test: findings and evidence, or why it was left out."""

    name: str
    asks: str
    findings: list[Finding] = field(default_factory=list)
    evidence: list[Artifact] = field(default_factory=list)
    left_out: str = ""
    first: int = 1
    aspect: Aspect = "faithfulness"

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "asks": self.asks,
            "left_out": self.left_out,
            "first": self.first,
            "aspect": self.aspect,
            "findings": [one.as_dict() for one in self.findings],
            "evidence": [one.as_dict() for one in self.evidence],
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> "Judged":
        try:
            return cls(
                given["name"],
                given["asks"],
                [Finding.from_dict(one) for one in given["findings"]],
                [from_dict(one) for one in given["evidence"]],
                given["left_out"],
                int(given["first"]),
                given.get("aspect", "faithfulness"),
            )
        except (KeyError, TypeError) as problem:
            raise ValueError(f"A judged test was read that is not whole: {problem!r}.") from problem


def chosen(tests: "str | Iterable[str]" = "all") -> list[Judge]:
    """The tests by name, in the order of the battery: "all", "ablation,permutation", or a list of names."""
    names = [name.strip() for name in tests.split(",")] if isinstance(tests, str) else list(tests)
    there = all_tests()
    if names == ["all"]:
        return there
    known = [one.name for one in there]
    strange = [name for name in names if name not in known]
    if strange or not names:
        what = repr(strange[0]) if strange else "nothing"
        raise ValueError(f"tests: {what} is no test; expected 'all' or some of {', '.join(known)}.")
    return [one for one in there if one.name in names]


def run(test: Judge, adapter: Adapter, *, seed: int = 0) -> Judged:
    """One test: its findings and what it handed over, or why it was left out."""
    with collect_artifacts() as evidence:
        try:
            if test.of != adapter.gives:
                raise NotApplicable(f"The model gives {adapter.gives}: this test is for models that give {test.of}.")
            if test.edges and adapter.selector.tokens:
                raise NotApplicable("Units of this model are words: this test is about the edges of graphs.")
            found = test.run(adapter, seed=seed)
        except (NotApplicable, Refused) as why:
            return Judged(test.name, test.asks, left_out=str(why), first=test.first, aspect=test.aspect)
    return Judged(test.name, test.asks, found, evidence, first=test.first, aspect=test.aspect)
