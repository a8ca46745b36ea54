"""Do the weights agree with human rationales? For every instance that has one."""

import numpy as np

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs, NotApplicable
from ..artifacts import Histogram, TextExamples, add_artifact, collects_artifacts
from ..attribution.importance import attention
from ..examples import examples, typical
from ..finding import Finding
from ..plausibility.correctness import judge_correctness
from ..plausibility.overlap import average_precision, judge_overlap
from ..registry import asks
from ..statistics.divergence import over_units


@asks("Do the weights agree with human rationales?", aspect="plausibility")
def rationales(adapter: Adapter, *, seed: int = 0) -> list[Finding]:
    """Average precision, token F1, IOU-F1, ERASER's AUPRC and attention correctness of the judged weights among the
    units, beside the same weights in random orders and mere position. Instances whose rationale is empty are left out
    and counted; those that carry none are not judged. ERASER (DeYoung et al. 2020); Liu et al. 2017.
    """
    chosen = [place for place, one in enumerate(adapter.instances) if one.marks is not None]
    if not chosen:
        raise NotApplicable("No instance has a rationale: plausibility cannot be judged.")
    weights, marks = marked(adapter)
    some = [(weights[place], marks[place]) for place in chosen if len(weights[place])]
    if collects_artifacts():
        _show(adapter, weights, marks)
    given, wanted = [w for w, _ in some], [g for _, g in some]
    summed = [(w, g) for w, g in some if w.sum() > 0]  # no weight on any unit: there is no share of it
    return [
        *judge_overlap(given, wanted, seed=seed),
        *judge_correctness([w for w, _ in summed], [g for _, g in summed], seed=seed),
    ]


def marked(adapter: Adapter) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Of each instance the judged weights of its units, sum 1, and their marks; none where it carries no rationale."""

    def measure(inputs: Inputs) -> list[np.ndarray]:
        weights = over_units(adapter.attention(inputs), inputs.units)
        return [one[units].cpu().numpy() for one, units in zip(weights, inputs.units, strict=True)]

    weights, marks = adapter.each(measure), []
    for one in adapter.instances:
        units = slice(None) if one.special is None else ~one.special
        marks.append(np.zeros(0, dtype=bool) if one.marks is None else one.marks[units].cpu().numpy())
    return weights, marks


def _show(adapter: Adapter, weights: list[np.ndarray], marks: list[np.ndarray]) -> None:
    found = np.array([average_precision(w, g) if len(g) else np.nan for w, g in zip(weights, marks, strict=True)])
    share = [g.mean() if g.any() else np.nan for g in marks]
    add_artifact(
        Histogram(
            "Agreement with rationales, instance by instance",
            "average precision",
            {"attention": found, "chance": share},
            "1: every marked unit has more weight than every other.",
        )
    )
    add_artifact(
        TextExamples(
            "Typical texts",
            examples(adapter, typical(found), {"attention": attention}),
            "Those whose agreement is nearest to the median.",
        )
    )
