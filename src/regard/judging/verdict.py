"""The verdicts of one report, corrected for all of its headlines together, and their words."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .finding import KNOW_NOTHING, Finding, Verdict
from .statistics.holm import holm

__all__ = ["KNOW_NOTHING", "beside", "compared", "correct", "standing", "verdicts"]

WORDS = {
    "better": "better than",
    "worse": "worse than",
    "not significantly different": "not significantly different from",
}


def correct(headlines: Sequence[Finding]) -> list[Finding]:
    """The same findings, as one family: the chance of a false verdict among them is at most one less the level.

    Holm's correction of the p that decides each (`Finding.decided`); those without a verdict do not count. Each
    finding's `correction` is what its p are multiplied by: Holm's factor where there is a verdict, else how many
    headlines there are. Correcting twice is correcting once.
    """
    deciding = [one.decided[1] for one in headlines]
    known = [p for p in deciding if p is not None]
    adjusted = iter(holm(np.array(known)) if known else ())
    made = []
    for one, p in zip(headlines, deciding, strict=True):
        if p is None:
            made.append(replace(one, family=0, correction=1.0))
            continue
        after = float(next(adjusted))
        held = after <= 1 - one.level and p > 0
        made.append(replace(one, family=len(known), correction=after / p if held else float(len(known))))
    return made


def standing(finding: Finding) -> tuple[str | None, Verdict]:
    """The baseline that decides over a finding, and the verdict."""
    return finding.standing


def verdicts(finding: Finding) -> dict[str, Verdict]:
    """How a finding stands against each of its baselines."""
    return {name: finding.against(name) for name in finding.baselines}


def compared(finding: Finding, baseline: str) -> str:
    """In words how a finding stands against a baseline: "better than random"; its mere name where that is undefined."""
    how = finding.against(baseline)
    return f"{WORDS[how]} {baseline}" if how in WORDS else baseline


def beside(finding: Finding) -> str:
    """How a finding stands, in words, against the baseline that decides; "" where it has none."""
    main, how = finding.standing
    if main is None:
        return ""
    return f"beside {main}" if how == "undefined" else compared(finding, main)
