"""The battery: every test that a report runs, by name.

A test enlists by one line in BATTERY:

    Judge("permutation", "Does it matter which words have the weights?", permutation),

where the function is `permutation(adapter, *, seed) -> list[Finding]`. More arguments have defaults of their own.
What figures need it hands over by `keep(...)` of evidence.py; a model or data for which it has no meaning it answers
with `raise LeftOut("no instance has a label")`: the report names the test and the reason, and goes on.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import Refused
from .ablation import ablation
from .adapter import Adapter
from .adversary import adversary
from .agreement import agreement
from .correlation import correlation
from .evidence import Evidence, from_dict, gathered
from .faithfulness import faithfulness, faithfulness_of_all
from .finding import Finding
from .infidelity import infidelity
from .inputs import LeftOut
from .layers import adversary_of_all_layers, layers, removals
from .permutation import permutation
from .rationales import rationales
from .task import task
from .translator import alignment, translation


@dataclass(frozen=True)
class Judge:
    """A test of the battery: its name, the question that it answers in plain words, the function, and how many of its
    findings stand on the first page of a report."""

    name: str
    asks: str
    run: Callable[..., list[Finding]]
    first: int = 1
    of: str = "classes"  # what the models give that it is for: classes or text


BATTERY: tuple[Judge, ...] = (
    Judge("task", "How well does the model do what it is for?", task),
    Judge("translation", "How well does the model write?", translation, 2, of="text"),
    Judge("alignment", "Do the weights link the words that people link?", alignment, 1, of="text"),
    Judge("ablation", "What does the output owe to attention, to each layer and to each head?", ablation, 2),
    Judge("correlation", "Do the weights order the units as gradients and leaving units out do?", correlation, 3),
    Judge("permutation", "Does it matter which units have the weights?", permutation),
    Judge("adversary", "Do quite different weights give the same prediction?", adversary),
    Judge("faithfulness", "Is the prediction gone without the units of most weight, and kept by them alone?",
          faithfulness, 2),
    Judge("layers", "Which layer's weights agree with gradients and erasure; does the whole way through them?", layers,
          0),  # no layer stands for the others
    Judge("everywhere", "Do quite different weights in all layers at once give the same prediction?",
          adversary_of_all_layers),
    Judge("removals", "Does it matter how units are taken away, by a mask or by deletion?", removals),
    Judge("importances", "Which importance of units is faithful: attention, maps made of it, gradients?",
          faithfulness_of_all, 0),  # its first number is that of the test before
    Judge("infidelity", "Which importance foretells what happens without some of the units?", infidelity),
    Judge("agreement", "Do the importances agree with one another?", agreement, 0),  # a matrix, not a verdict
    Judge("rationales", "Do the weights lie where people put their marks?", rationales),
)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """What came of one test: findings and evidence, or why it was left out."""

    name: str
    asks: str
    findings: list[Finding] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    left_out: str = ""
    first: int = 1

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "asks": self.asks, "left_out": self.left_out, "first": self.first,
                "findings": [one.as_dict() for one in self.findings],
                "evidence": [one.as_dict() for one in self.evidence]}  # fmt: skip

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> "Judged":
        try:
            return cls(given["name"], given["asks"], [Finding.from_dict(one) for one in given["findings"]],
                       [from_dict(one) for one in given["evidence"]], given["left_out"],
                       int(given["first"]))  # fmt: skip
        except (KeyError, TypeError) as problem:
            raise ValueError(f"A judged test was read that is not whole: {problem!r}.") from problem


def chosen(tests: "str | Iterable[str]" = "all") -> list[Judge]:
    """The tests by name, in the order of the battery: "all", "ablation,permutation", or a list of names."""
    names = [name.strip() for name in tests.split(",")] if isinstance(tests, str) else list(tests)
    if names == ["all"]:
        return list(BATTERY)
    known = [one.name for one in BATTERY]
    strange = [name for name in names if name not in known]
    if strange or not names:
        what = repr(strange[0]) if strange else "nothing"
        raise ValueError(f"tests: {what} is no test; expected 'all' or some of {', '.join(known)}.")
    return [one for one in BATTERY if one.name in names]


def run(test: Judge, adapter: Adapter, *, seed: int = 0) -> Judged:
    """One test: its findings and what it handed over, or why it was left out."""
    with gathered() as evidence:
        try:
            if test.of != adapter.gives:
                raise LeftOut(f"The model gives {adapter.gives}: this test is for models that give {test.of}.")
            found = test.run(adapter, seed=seed)
        except (LeftOut, Refused) as why:
            return Judged(test.name, test.asks, left_out=str(why), first=test.first)
    return Judged(test.name, test.asks, found, evidence, first=test.first)
