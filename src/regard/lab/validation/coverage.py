"""Coverage of the intervals of judging, and false-positive rates of its verdicts, by simulation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from regard.judging.finding import Finding
from regard.judging.statistics.comparison import compare
from regard.judging.statistics.intervals import Estimate, estimate
from regard.judging.statistics.scale import Scale, fewest
from regard.judging.statistics.shares import clopper_pearson
from regard.judging.statistics.streams import stream

from ..bench.measure import BenchResult, show

TRIALS = 1000
BAR = 0.93
Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Population:
    """What instances are drawn from: (random numbers, n) -> (n,), its mean, and what is declared of it."""

    name: str
    draw: Draw
    truth: float
    scale: Scale = "real"


POPULATIONS = (
    Population("normal", lambda draw, n: draw.normal(size=n), 0.0),
    Population("uniform", lambda draw, n: draw.random(n), 0.5),
    Population("t with 3 degrees", lambda draw, n: draw.standard_t(3, size=n), 0.0),
    Population("exponential", lambda draw, n: draw.exponential(size=n), 1.0),
    Population("lognormal", lambda draw, n: draw.lognormal(size=n), float(np.exp(0.5)), "skewed"),
    Population(
        "four in five are 0, else exponential",
        lambda draw, n: (draw.random(n) < 0.2) * draw.exponential(size=n),
        0.2,
        "skewed",
    ),
    Population(
        "nine in ten are 0, else uniform, bounded",
        lambda draw, n: (draw.random(n) < 0.1) * draw.random(n),
        0.05,
        (0.0, 1.0),
    ),
)
SIZES = (8, 16, 30, 60, 120, 250)
SHARES = np.linspace(0.001, 0.999, 999)


def main(json: bool = False, trials: int = TRIALS) -> None:
    console = Console(stderr=True)
    results = []
    for one in (*shares(), *means(trials), *seeds(trials), *nulls(trials)):
        console.print(f"[dim]{one.name}: {one.ours:.3f}[/dim]")
        results.append(one)
    show("coverage", results, json)


def shares() -> Iterator[BenchResult]:
    """The least coverage over 999 shares, by enumeration of every count."""
    from scipy.stats import binom

    for n in (1, 2, 8, 30, 100, 1000):
        ends = np.array([clopper_pearson(k, n) for k in range(n + 1)])
        inside = (ends[:, :1] <= SHARES) & (ends[:, 1:] >= SHARES)
        chance = binom.pmf(np.arange(n + 1)[:, None], n, SHARES)
        yield _coverage(f"a share of {n}, least over every p", float((inside * chance).sum(0).min()), "Clopper-Pearson")


def means(trials: int = TRIALS) -> Iterator[BenchResult]:
    """Of each population and n how often the interval of the mean holds it; below the fewest no verdict is made."""
    for population in POPULATIONS:
        for n in SIZES:
            draw = stream(n, population.name)
            found = [
                estimate(population.draw(draw, n), scale=population.scale, seed=trial, resamples=1000)
                for trial in range(trials)
            ]
            one = _coverage(
                f"{population.name}, {n} instances",
                _held(found, population.truth),
                found[0].method,
                told=fewest(population.scale) <= n,
            )
            one.notes["with an interval"] = sum(each.interval is not None for each in found) / trials
            yield one


def seeds(trials: int = TRIALS) -> Iterator[BenchResult]:
    """Seeds crossed with 60 instances, where the seeds make most of the spread, and where the instances do."""
    for count in (2, 3, 5, 8):
        for name, by_seed, by_instance in (("seeds", 1.0, 1.0), ("instances", 0.1, 2.0)):
            draw = stream(count, name)
            found = []
            for _ in range(trials):
                table = by_seed * draw.normal(size=(count, 1)) + by_instance * draw.normal(size=(1, 60))
                found.append(estimate(table + draw.normal(size=(count, 60)), seeds=True))
            yield _coverage(f"{count} seeds, {name} vary most", _held(found, 0.0), found[0].method)


def nulls(trials: int = TRIALS) -> Iterator[BenchResult]:
    """How often a measure that is one more draw of its baseline is called better, or worse; 0.025 each is nominal."""
    for population in POPULATIONS:
        for n in (12, 60):
            draw, told = stream(n, population.name + ", nothing"), dict[str, int](better=0, worse=0)
            for trial in range(trials):
                table = population.draw(draw, 11 * n).reshape(11, n)
                found = compare(table[0], {"random": table[1:]}, scale=population.scale, seed=trial, resamples=1000)
                how: str = Finding.of(found, name="nothing", says="Nothing.", better="higher").standing[1]
                if how in told:
                    told[how] += 1
            for how, count in told.items():
                limit = 0.025 + 2.6 * np.sqrt(0.025 * 0.975 / trials)
                yield BenchResult(
                    f"falsely {how}: {population.name}, {n} instances",
                    "share",
                    count / trials,
                    0.025,
                    "nominal",
                    f"at most {limit:.3f}, {trials} draws",
                    bool(count / trials <= limit),
                )


def _held(found: list[Estimate], truth: float) -> float:
    """The share of trials whose interval holds the truth; a trial without an interval claims nothing."""
    ends = [one.interval for one in found if one.interval is not None]
    return float(np.mean([low <= truth <= high for low, high in ends]))


def _coverage(name: str, held: float, method: str, told: bool = True) -> BenchResult:
    bar = f"at least {BAR}" if told else "no verdict with so few"
    return BenchResult(name, "share", held, 0.95, "nominal", f"{bar} ({method})", held >= BAR if told else None)
