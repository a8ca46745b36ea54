"""Support table of a backend's kernels: the families of forms that they have code for.

Dispatch, refusals and the tables of docs/backends.md follow from this and from what scores, modifiers, alignments and
structures declare of themselves (`kernel_forms`): a new one that declares a form runs wherever its family does.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .kernel_forms import EDGE_LIST, PREDICTED_WINDOW, WITHIN, listed
from .score_kernels import OpaqueCore

if TYPE_CHECKING:
    from ..plan import Plan
    from ..scores.score import Lowered

EVERY_DENSE = ("every one but edges",)  # of backends that use a structure's pairs, not its form
NO_TRANSFORMS = (
    "It does not run under vmap, forward-mode derivatives and the other transforms of torch.func: "
    'backend="reference" does.'
)
# Further terms of a lowered score.
KEY_BIAS, FEATURE_KEY_BIAS, ROW_BIAS, SINK = "biases of keys", "biases of keys by feature", "biases of rows", "sinks"


@dataclass(frozen=True)
class Support:
    """Families of alignments, structures, cores and modifiers, and the terms of a score, that a backend runs."""

    alignments: tuple[str, ...]
    structures: tuple[str, ...]
    cores: tuple[str, ...]
    modifiers: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()

    def modifies(self, family: str) -> bool:
        """Whether it runs a family of modifiers, or one that holds it."""
        return family in self.modifiers or WITHIN.get(family) in self.modifiers

    def refusals(self, plan: "Plan") -> list[str]:
        """Reasons not to run a plan, as sentences; the score is lowered only if nothing else refuses."""
        why = self.alignment_refusals(plan) + self.structure_refusals(plan)
        return why or self.score_refusals(plan.problem.score)

    def alignment_refusals(self, plan: "Plan") -> list[str]:
        form = plan.align.kernel_form()
        if form is None or form.family not in self.alignments:
            return [f"{_subject('alignment', self.alignments)} {listed(self.alignments)}; this is {called(plan)}."]
        if plan.factor is not None and PREDICTED_WINDOW not in self.alignments:
            return ["It does not multiply weights by a factor."]
        return []

    def structure_refusals(self, plan: "Plan") -> list[str]:
        forms = plan.structure_forms
        if self.structures is EVERY_DENSE:
            if not any(form is not None and form.family == EDGE_LIST for form in forms):
                return []
        elif all(form is not None and form.family in self.structures for form in forms):
            return []
        return [f"{_subject('structure', self.structures)} {listed(self.structures)}; this is {plan.over}."]

    def score_refusals(self, score: "Lowered") -> list[str]:
        form = None if isinstance(score.core, OpaqueCore) else score.core.kernel_form()
        if form is None or form.family not in self.cores:
            return [f"It scores by {listed(self.cores)}; this is {score.core}."]
        why = []
        modifiers = [modifier.kernel_form() for modifier in score.modifiers]
        if any(each is None or not self.modifies(each.family) for each in modifiers):
            names = ", ".join(type(modifier).__name__ for modifier in score.modifiers)
            runs = f"Its modifiers are {listed(self.modifiers)}" if self.modifiers else "It has no modifiers"
            why.append(f"{runs}; this score has {names}.")
        missing = [term for term in terms_of(score) if term not in self.terms]
        if missing:
            why.append(f"It has no {' and no '.join(missing)}.")
        return why


def terms_of(score: "Lowered") -> list[str]:
    """The terms of a lowered score other than core and modifiers."""
    by_feature = score.key_bias is not None and score.key_bias.ndim == 3
    held = {
        KEY_BIAS: score.key_bias is not None and not by_feature,
        FEATURE_KEY_BIAS: by_feature,
        ROW_BIAS: score.row_bias is not None,
        SINK: score.sink is not None,
    }
    return [term for term, there in held.items() if there]


def called(plan: "Plan") -> str:
    """The name of a plan's alignment in refusals, with the family if its class has several."""
    form, name = plan.align.kernel_form(), type(plan.align).__name__
    same = form is None or form.family.replace("-", "").lower() == name.lower()
    return name if same or form is None else f"{name} ({form.family})"


def _subject(kind: str, families: tuple[str, ...]) -> str:
    return f"Its {kind}s are" if len(families) > 1 else f"Its {kind} is"
