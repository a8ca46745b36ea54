"""How well each measure distinguishes weights that are a reason from others, on models of known truth.

`regard validate models` measures it and writes validity.json; a report says it beside a finding whose measure is weak.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

ANSWER = "the report's answer"  # the name of the verdict on all measures together, where measures have theirs
FILE = "validity.json"
LEAST = 0.75  # a measure with a smaller area under the ROC curve is weak
MOST = 0.2  # and so is one that says "better" of a larger share of the models whose weights are no reason


@dataclass(frozen=True)
class Validity:
    """Of one measure: the area under the ROC curve, the share of models without a reason that it calls better (None
    where it has no verdict), and over how many models."""

    auroc: float
    false_positives: float | None
    models: int

    @property
    def weak(self) -> bool:
        return self.auroc < LEAST or (self.false_positives or 0.0) > MOST

    @property
    def says(self) -> str:
        """Of a weak measure what it is weak in; "" of others."""
        if not self.weak:
            return ""
        found = []
        if self.auroc < LEAST:
            found.append(
                f"ranks one whose weights are a reason above one whose weights are not {self.auroc:.0%} of the time"
            )
        if (self.false_positives or 0.0) > MOST:
            found.append(f"calls {self.false_positives:.0%} of those whose weights are not better than the baseline")
        return f"A weak measure: on {self.models} models of known truth it {', and '.join(found)}."


@cache
def validities() -> dict[str, Validity]:
    """By the name of a finding, as it was measured last."""
    text = files("regard.judging").joinpath(FILE).read_text(encoding="utf-8")
    return {name: Validity(**one) for name, one in json.loads(text).items()}


def weakness(finding: str) -> str:
    """A sentence where the measure of this finding is weak; "" where it is sound, or was not measured."""
    found = validities().get(finding)
    return "" if found is None else found.says
