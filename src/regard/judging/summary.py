"""What a report answers: may this attention be used as a reason? From the verdicts that every page and table has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .artifacts import Caution
from .finding import Finding, Verdict
from .suite import Judged, all_tests
from .validity import weakness

QUESTION = "May this attention be used as a reason?"
TERMS = {
    "faithfulness": "Do the weights point at what the prediction depends on? Taking a faithful reason away changes the "
    "prediction.",
    "comprehensiveness": "How much probability the predicted class loses without the units of most weight: high where "
    "they were needed.",
    "sufficiency": "How much probability it loses with these units alone: low where they are enough.",
    "plausibility": "Do the weights lie where people would look for the reason? A plausible reason need not be the "
    "model's own.",
}
WEIGHTS = {
    "random": "random weights",
    "random unit": "a random unit",
    "chance": "chance",
    "uniform": "equal weights",
    "position": "weights by position",
    "degree": "the degree of a node",
    "bag of words": "a bag of words",
    "commonest class": "the commonest class",
    "MLP without edges": "an MLP without edges",
}
DECIDED = ("better", "worse", "not significantly different")
ADVERSARY = "adversary"
# A yes needs both: weights that nothing depends on may point at the right words, and weights that decide at wrong ones.
DEPENDS = "whether other weights give the same prediction (adversary)"
POINTS = "whether the weights point at what the prediction depends on"
NAMED = 3  # measures that the answer names


@dataclass(frozen=True)
class Headline:
    """How a finding of the first page stands: against which baseline, and "better", "worse", "not significantly
    different" or "undefined"."""

    test: Judged
    finding: Finding
    baseline: str | None
    how: Verdict


@dataclass(frozen=True)
class ReportSummary:
    """The first page of a report in words.

    answer      one or two sentences that answer the question
    cautions    what makes the findings mean less: a half-trained model, texts that were cut, heads that do nothing
    verdicts    the findings of the first page, with how they stand
    left_out    by the name of a test why it was left out
    not_asked   the tests that were not asked for
    """

    answer: str
    cautions: list[str]
    verdicts: list[Headline]
    left_out: dict[str, str]
    not_asked: list[str]

    @property
    def not_tested(self) -> dict[str, str]:
        """By the name of a test why it was not run."""
        return self.left_out | dict.fromkeys(self.not_asked, "It was not requested.")

    @property
    def held(self) -> float | None:
        """The share of the measures that decide which are better than their baseline; None where none decides."""
        some = deciding(self.verdicts)
        return sum(one.how == "better" for one in some) / len(some) if some else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "question": QUESTION,
            "answer": self.answer,
            "warnings": self.cautions,
            "verdicts": [
                {
                    "test": one.test.name,
                    "aspect": one.test.aspect,
                    "finding": one.finding.name,
                    "baseline": one.baseline,
                    "verdict": one.how,
                }
                for one in self.verdicts
            ],
            "not tested": self.not_tested,
        }


def summarise(about: Mapping[str, Any], tests: Sequence[Judged], verdicts: Sequence[Headline]) -> ReportSummary:
    """The summary of a report, from what it is about, its tests and how the findings of its first page stand."""
    there = {test.name: test.left_out for test in tests}
    return ReportSummary(
        answer(about, verdicts),
        _cautions(about, tests, verdicts),
        list(verdicts),
        {name: why for name, why in there.items() if why},
        [test.name for test in all_tests() if test.name not in there],
    )


def answer(about: Mapping[str, Any], verdicts: Sequence[Headline]) -> str:
    """From the measures that decide (`deciding`): all of them must be better than their baseline for a yes, among
    them the adversary, which alone asks whether the prediction needs these weights."""
    decided = deciding(verdicts)
    on = f"on {counted(about)}"
    if not decided:
        return f"That cannot be said: no measure of faithfulness has a verdict {on}."
    failed = [one for one in decided if one.how != "better"]
    names = {one.test.name for one in decided}
    missing = POINTS if names == {ADVERSARY} else DEPENDS if ADVERSARY not in names else ""
    if not failed and missing:
        return (
            f"Only in part: {on} it was better than {_baselines(decided, 'and')} in {_all(len(decided))}, but "
            f"{missing} was not tested."
        )
    if not failed:
        return (
            f"As far as it was tested, yes: {on} it was better than {_baselines(decided, 'and')} in "
            f"{_all(len(decided))}. This removes a reason for doubt; it is no proof."
        )
    if 2 * len(failed) >= len(decided):
        return (
            f"Not on this evidence: {on} it was not significantly better than {_baselines(failed)} in {len(failed)} of "
            f"{_measures(len(decided))}."
        )
    named = ", ".join(one.finding.name for one in failed[:NAMED]) + (", ..." if len(failed) > NAMED else "")
    return (
        f"Only in part: {on} it was not significantly better than {_baselines(failed)} in {len(failed)} of "
        f"{_measures(len(decided))} ({named})."
    )


def deciding(verdicts: Sequence[Headline]) -> list[Headline]:
    """The measures that the answer rests on: of faithfulness, with a verdict, and not weak (`validity.py`)."""
    return [
        one
        for one in verdicts
        if one.test.aspect == "faithfulness" and one.how in DECIDED and not weakness(one.finding.name)
    ]


def _cautions(about: Mapping[str, Any], tests: Sequence[Judged], verdicts: Sequence[Headline]) -> list[str]:
    made = []
    if about.get("caution"):
        made.append(f"Half-trained. {about['caution']}")
    if about.get("cut"):
        made.append(
            f"Truncated. The model reads only the beginning of {about['cut']} of {counted(about)}: the rest got no "
            "weight and was not judged."
        )
    for one in verdicts:
        if one.test.aspect == "task" and one.how in ("worse", "not significantly different") and one.baseline:
            made.append(
                f"The model itself is {_how(one)} {WEIGHTS.get(one.baseline, one.baseline)} ({one.finding.name}) on "
                f"{counted(about)}: if it is no better, its attention says little about the task."
            )
    for test in tests:
        made += [f"{one.title}. {one.says}" for one in test.evidence if isinstance(one, Caution)]
    return made


def _how(one: Headline) -> str:
    return "worse than" if one.how == "worse" else "not significantly better than"


def counted(about: Mapping[str, Any]) -> str:
    """As sentences say how many instances were judged: 60 texts, 1 node."""
    n, unit = int(about.get("instances", 0)), str(about.get("unit", "instances"))
    return f"{n} {unit if n != 1 else unit.removesuffix('s')}"


def _baselines(some: Sequence[Headline], joined: str = "or") -> str:
    names = list(dict.fromkeys(WEIGHTS.get(one.baseline or "", one.baseline or "its baseline") for one in some))
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" {joined} " + names[-1]


def _measures(count: int) -> str:
    return f"{count} measure{'s' * (count != 1)}"


def _all(count: int) -> str:
    return "the one measure of faithfulness" if count == 1 else f"all {_measures(count)} of faithfulness"
