"""Do the weights agree with gradients and with leave-one-out? Kendall's tau, instance by instance."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs
from ..artifacts import Histogram, TextExamples, add_artifact, collects_artifacts
from ..attribution.gradients import gradient
from ..attribution.importance import Importance, attention, chance, leave_one_out, position_baseline
from ..examples import examples, typical
from ..finding import Finding
from ..registry import asks
from ..statistics.comparison import compare
from ..statistics.intervals import known
from ..wording import amount, percent

TEST = "correlation"
FEWEST = 3  # units below which a rank correlation says nothing
LEVEL = 0.05
DRAWS = 10  # random weights beside each figure
PAIRS = (("attention", "gradient"), ("attention", "leave one out"), ("gradient", "leave one out"))


@asks("Do the weights rank the units as gradients and leave-one-out do?", first=3)
def correlation(adapter: Adapter, *, ends: bool = False, seed: int = 0) -> list[Finding]:
    """Kendall's tau-b (ties counted) of the judged weights with gradients and with leave-one-out, mean of instances.

    Special tokens are left out, and so are the first and the last token of a text unless ends=True: recurrent models
    keep what they know there. An instance with fewer than three units, or on which a measure is constant, is undefined.
    The share of instances where agreement is significant is corrected for their number (Benjamini & Hochberg 1995, at
    0.05); the uncorrected one stands beside it. Ten random weights, the weights by position, and how far gradients and
    leave-one-out agree with each other, are the baselines. Jain & Wallace 2019, section 4.1.
    """
    place = position_baseline(adapter)
    tau, p = taus(adapter, ends=ends, seed=seed, draws=DRAWS, beside=place)
    if collects_artifacts():
        _show(adapter, tau)
    made = []
    for column, other in enumerate(("gradient", "leave one out")):
        by_chance = slice(3 + column, 3 + 2 * DRAWS, 2)
        beside = {"random": tau[:, by_chance].T, "gradient and leave one out": tau[:, 2]}
        beside |= dict.fromkeys(place, tau[:, column - 2])
        found = compare(tau[:, column], beside, scale=(-1.0, 1.0), seed=seed)
        undefined = f"undefined: no instance has three units that both attention and {other} rank."
        says = (
            undefined
            if found.value is None
            else f"Weights and {other} rank the units with a tau of {amount(found.value, 2)}, where 1 is the "
            "same order and 0 chance."
        )
        made.append(
            Finding.of(
                found,
                name=f"tau of attention and {other}",
                says=says,
                better="higher",
                test=TEST,
                unit="Kendall tau-b",
            )
        )
        agree = significant(tau[:, column], p[:, column])
        plain = np.where(np.isnan(agree), np.nan, (p[:, column] <= LEVEL) & (tau[:, column] > 0))
        drawn = [significant(tau[:, at], p[:, at]) for at in range(tau.shape[1])[by_chance]]
        share = compare(agree, {"random": np.array(drawn)}, scale="share", seed=seed)
        made.append(
            Finding.of(
                share,
                name=f"significant agreement of attention and {other}",
                says=undefined
                if share.value is None
                else f"In {percent(share.value)} of the instances weights and {other} agree significantly, "
                "corrected for the number of instances.",
                better="higher",
                test=TEST,
                unit="share",
                baselines={"before correction": known(plain)},
            )
        )
    return made


def taus(
    adapter: Adapter,
    *,
    ends: bool = False,
    seed: int = 0,
    draws: int = 1,
    beside: "Mapping[str, Importance] | None" = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Tau and its p-value, (instances, 3 + 2 draws) each, for: attention and gradient, attention and leave one out,
    gradient and leave one out, and each random weights with gradient and with leave one out; NaN where undefined. Then
    two more columns for each importance of `beside`, with gradient and with leave one out."""
    others = dict(beside or {})
    drawn = {f"random {draw}": chance(seed + 1 + draw) for draw in range(draws)}
    pairs = [*PAIRS, *((name, other) for name in (*drawn, *others) for other in ("gradient", "leave one out"))]

    def measure(inputs: Inputs) -> list[list[tuple[float, float]]]:
        by_name = {"attention": attention, "gradient": gradient, "leave one out": leave_one_out, **drawn, **others}
        scores = {name: of(adapter, inputs) for name, of in by_name.items()}
        units = inputs.units if ends or not adapter.selector.tokens else _within(inputs)  # edges have no ends
        made = []
        for item, some in enumerate(units):
            by_item = {name: score[item][some].cpu().numpy() for name, score in scores.items()}
            made.append([kendall(by_item[a], by_item[b]) for a, b in pairs])
        return made

    found = np.asarray(adapter.each(measure), dtype=np.float64).reshape(-1, len(pairs), 2)
    return found[..., 0], found[..., 1]


def _show(adapter: Adapter, tau: np.ndarray) -> None:
    add_artifact(
        Histogram(
            "Agreement, instance by instance",
            "Kendall tau-b",
            {f"{a} and {b}": tau[:, at] for at, (a, b) in enumerate((*PAIRS, ("random", "gradient")))},
            "1: the same order of units; 0: chance; below: the reverse order.",
        )
    )
    some = examples(adapter, typical(tau[:, 0]), {"attention": attention, "gradient": gradient})
    add_artifact(TextExamples("Typical texts", some, "Those whose agreement is nearest to the median."))


def kendall(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Kendall's tau-b and its p-value; NaN for fewer than three, for NaN, and where one of them is constant."""
    from scipy.stats import kendalltau

    if len(a) < FEWEST or np.isnan(a).any() or np.isnan(b).any() or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan"), float("nan")
    found = kendalltau(a, b, variant="b")
    return float(found.statistic), float(found.pvalue)


def significant(tau: np.ndarray, p: np.ndarray, level: float = LEVEL) -> np.ndarray:
    """1 where tau is above 0 and its p-value holds after Benjamini & Hochberg's correction, else 0; NaN if undefined.

    The largest i with p_(i) <= level i / n decides: it and all smaller ones hold.
    """
    from scipy.stats import false_discovery_control

    made = np.full(tau.shape, np.nan)
    known = ~np.isnan(p)
    if known.any():
        made[known] = (false_discovery_control(p[known]) <= level) & (tau[known] > 0)
    return made


def _within(inputs: Inputs) -> Tensor:
    """Units without the first and the last token of each text."""
    place = torch.arange(inputs.real.shape[1], device=inputs.real.device)
    last = (place * inputs.real).amax(-1, keepdim=True)
    return inputs.units & (place > 0) & (place < last)
