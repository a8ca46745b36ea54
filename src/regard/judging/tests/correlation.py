"""Do the weights agree with gradients and with leaving units out? Kendall's tau, instance by instance."""

import numpy as np
import torch
from torch import Tensor

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs
from ..artifacts import Histogram, TextExamples, add_artifact, collects_artifacts
from ..attribution.gradients import gradient
from ..attribution.importance import attention, chance, leave_one_out
from ..examples import examples, typical
from ..finding import Finding
from ..registry import asks
from ..statistics.intervals import estimate, known

TEST = "correlation"
FEWEST = 3  # units below which a rank correlation says nothing
LEVEL = 0.05
PAIRS = (
    ("attention", "gradient"),
    ("attention", "leave one out"),
    ("gradient", "leave one out"),
    ("random", "gradient"),
    ("random", "leave one out"),
)


@asks("Do the weights order the units as gradients and leaving units out do?", first=3)
def correlation(adapter: Adapter, *, ends: bool = False, seed: int = 0) -> list[Finding]:
    """Kendall's tau-b (ties counted) of the judged weights with gradients and with leave-one-out, mean of instances.

    Special tokens are left out, and so are the first and the last token of a text unless ends=True: recurrent models
    keep what they know there. An instance with fewer than three units, or on which a measure is constant, is undefined.
    The share of instances where agreement is significant is corrected for their number (Benjamini & Hochberg 1995, at
    0.05); the uncorrected one stands beside it. Random weights, and how far gradients and leave-one-out agree with each
    other, are the baselines. Jain & Wallace 2019, section 4.1.
    """
    tau, p = taus(adapter, ends=ends, seed=seed)
    if collects_artifacts():
        _show(adapter, tau)
    made = []
    beside = known(tau[:, 2])
    for column, other, by_chance in ((0, "gradient", 3), (1, "leave one out", 4)):
        found = estimate(tau[:, column], seed=seed)
        says = (
            "undefined: no instance has three units that differ."
            if found.value is None
            else f"Weights and {other} order the units alike by {found.value:.2f}, where 1 is the same order and 0 "
            "chance."
        )
        made.append(
            Finding.of(
                found,
                name=f"tau of attention and {other}",
                says=says,
                better="higher",
                test=TEST,
                unit="Kendall tau-b",
                baselines={"random": known(tau[:, by_chance]), "gradient and leave one out": beside},
            )
        )
        agree = significant(tau[:, column], p[:, column])
        plain = np.where(np.isnan(agree), np.nan, (p[:, column] <= LEVEL) & (tau[:, column] > 0))
        share = estimate(agree, seed=seed)
        made.append(
            Finding.of(
                share,
                name=f"significant agreement of attention and {other}",
                says="undefined: no instance has three units that differ."
                if share.value is None
                else f"In {share.value:.0%} of the instances weights and {other} agree more than by chance, "
                "corrected for their "
                "number.",
                better="higher",
                test=TEST,
                unit="share",
                baselines={
                    "before correction": known(plain),
                    "random": known(significant(tau[:, by_chance], p[:, by_chance])),
                },
            )
        )
    return made


def taus(adapter: Adapter, *, ends: bool = False, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Tau and its p-value, (instances, 5) each, for: attention and gradient, attention and leave one out, gradient and
    leave one out, random and gradient, random and leave one out; NaN where undefined."""
    drawn = chance(seed)

    def measure(inputs: Inputs) -> list[list[tuple[float, float]]]:
        by_name = {"attention": attention, "gradient": gradient, "leave one out": leave_one_out, "random": drawn}
        scores = {name: of(adapter, inputs) for name, of in by_name.items()}
        units = inputs.units if ends or not adapter.selector.tokens else _within(inputs)  # edges have no ends
        made = []
        for item, some in enumerate(units):
            by_item = {name: score[item][some].cpu().numpy() for name, score in scores.items()}
            made.append([kendall(by_item[a], by_item[b]) for a, b in PAIRS])
        return made

    found = np.asarray(adapter.each(measure), dtype=np.float64).reshape(-1, len(PAIRS), 2)
    return found[..., 0], found[..., 1]


def _show(adapter: Adapter, tau: np.ndarray) -> None:
    add_artifact(
        Histogram(
            "Agreement, instance by instance",
            "Kendall tau-b",
            {f"{a} and {b}": tau[:, column] for column, (a, b) in enumerate(PAIRS)},
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
