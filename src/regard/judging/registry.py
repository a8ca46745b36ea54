"""A test says what it asks, and is in the battery by that.

    @asks("Does the prediction change when the weights are permuted?")
    def permutation(adapter, *, seed=0) -> list[Finding]: ...

A file of this folder with such a function in it is all that a new test needs: `regard judge`, `regard.judge` and
studies know it by its name, and a report tells what it found. What figures need it hands over by `add_artifact(...)` of
artifacts.py; a model or data for which it has no meaning it answers with
`raise NotApplicable("no instance has a label")`: the report names the test and the reason, and goes on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from .finding import Finding

# What a test is about: how well the model does its task, whether the weights are a reason for what it says, whether
# people would give the same reason, or a trap, which makes findings of the others mean less than they seem to.
Aspect = Literal["task", "faithfulness", "plausibility", "trap"]
Test = TypeVar("Test", bound=Callable[..., list[Finding]])


@dataclass(frozen=True)
class Judge:
    """A test of the battery: its name, the question that it answers in plain words, the function, and how many of its
    findings stand on the first page of a report."""

    name: str
    asks: str
    run: Callable[..., list[Finding]]
    first: int = 1
    of: str = "classes"  # what the models give that it is for: classes, text or fixations
    edges: bool = False  # whether it is for graphs alone
    aspect: Aspect = "faithfulness"


ENLISTED: dict[str, Judge] = {}


def asks(
    question: str,
    *,
    name: str = "",
    first: int = 1,
    of: str = "classes",
    edges: bool = False,
    aspect: Aspect = "faithfulness",
) -> Callable[[Test], Test]:
    """Puts a function (adapter, *, seed) -> list[Finding] into the battery. More arguments have defaults of their own.

    question   what it answers, in plain words
    name       how it is asked for; the function's own unless told
    first      how many of its findings stand on the first page of a report; 0 where none is a verdict
    of         what the models give that it is for: "classes", "text" or "fixations"
    edges      whether it is for graphs alone
    aspect     "task", "faithfulness", "plausibility" or "trap": the part of a report that it stands in. Only tests of
               faithfulness decide whether weights may be used as a reason
    """

    def enlist(function: Test) -> Test:
        called = name or function.__name__
        before = ENLISTED.get(called)
        if before is not None and before.run.__qualname__ != function.__qualname__:
            raise ValueError(
                f"asks(name={called!r}): this is the test {before.run.__qualname__} of "
                f"{before.run.__module__}; choose another name."
            )
        ENLISTED[called] = Judge(called, question, function, first, of, edges, aspect)
        return function

    return enlist
