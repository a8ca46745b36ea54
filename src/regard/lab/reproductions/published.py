"""What was found on SST beside what was published: findings over seeds, with intervals over seeds and instances."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from regard.judging.finding import Finding
from regard.judging.progress import ProgressCallback, no_progress
from regard.judging.retraining.guides import guides
from regard.judging.retraining.reading import TrainedReadout
from regard.judging.retraining.retraining import Retraining
from regard.judging.retraining.seeds import seed_variance
from regard.judging.retraining.trained_adversary import STRENGTHS, trained_adversary
from regard.judging.retraining.uniform import uniform_retraining
from regard.judging.statistics.comparison import compare
from regard.judging.statistics.divergence import LARGEST
from regard.judging.statistics.intervals import estimate, known, mean, median
from regard.judging.wording import amount, percent

from .sst_models import measured, retraining

CLASSES = ("negative", "positive")
# Jain & Wallace 2019, from the result files of their code: mean tau by predicted class, median of the divergence
TAU = {
    ("additive", "gradient"): (0.34, 0.36),
    ("additive", "leave one out"): (0.27, 0.32),
    ("dot", "gradient"): (0.07, None),
}
SIGNIFICANT = {("additive", "gradient"): (0.48, 0.49), ("additive", "leave one out"): (0.33, 0.40)}
FAR = {"median": 0.50, "mean": 0.485}
# Wiegreffe & Pinter 2019: F1 of the positive class
F1 = {
    "F1, additive weights": 0.831,
    "F1, uniform weights": 0.822,
    "F1, guided by uniform": 0.812,
    "F1, guided by learned": 0.817,
    "F1, guided by base": 0.824,
    "F1, guided by adversary": 0.592,
}
STEPS = ("weights", "uniform", "dot", "random", "seeds", "guides", "adversary")


def reproduce(
    folder: Path,
    *,
    seeds: int = 8,
    steps: Sequence[str] = STEPS,
    every: int = 1,
    device: str = "cpu",
    on_progress: ProgressCallback = no_progress,
    seed: int = 0,
) -> list[Finding]:
    """Everything that was published about the weights of SST's model, again; a folder that is there goes on.

    steps   weights    tau and the adversary of additive attention on MiniLM's vectors
            uniform    the same model trained with uniform weights
            dot        tau of dot attention
            random     tau of additive attention on random vectors
            seeds, guides, adversary   as the judges of those names
    every   4 for an adversary that judges one test sentence in four; 1 for all
    on_progress   called with (the model that is trained, models done, of how many)
    """
    strange = [one for one in steps if one not in STEPS]
    if strange:
        raise ValueError(f"reproduce(steps={strange[0]!r}): expected some of {', '.join(STEPS)}.")
    made = Made(on_progress, models_of(steps, seeds))
    main = retraining("minilm", folder, device)
    main.on_progress = made

    def models(some: Retraining, attention: str, often: int = 0) -> list[TrainedReadout]:
        read = []
        for one in range(seeds):
            also = measured(some.task, often, seed, partial(some.on_progress, f"{attention}, seed {one}", 1.0))
            read.append(some.trained(attention, one, also=also))
        judged = len(some.task.test[::often]) if often else 0
        if any(len(one.more.get("far", ())) != judged for one in read):
            raise ValueError(
                f"{some.folder} was made with another number of sentences for the adversary than "
                f"every={often} has: give that one again, or name another folder."
            )
        return read

    found: list[Finding] = []
    if {"weights", "uniform", "seeds", "guides", "adversary"} & set(steps):
        read = models(main, "additive", often=every)
        if "weights" in steps:
            found += correlations(read, "additive", "MiniLM's vectors", seed) + adversaries(read, seed)
    if "uniform" in steps:
        found += uniform_retraining(main, seeds=seeds, seed=seed)
    if "dot" in steps:
        found += correlations(models(main, "dot"), "dot", "MiniLM's vectors", seed)
    if "random" in steps:
        other = retraining("random", folder, device)
        other.on_progress = lambda model, share, now: made(f"random vectors, {model}", share, now)
        found += correlations(models(other, "additive"), "additive", "random vectors", seed)
    if "seeds" in steps and seeds > 1:
        found += seed_variance(main, seeds=seeds, seed=seed)
    if "guides" in steps:
        found += guides(main, seeds=seeds, seed=seed)
    if "adversary" in steps:
        found += trained_adversary(main, others=seeds - 1, seed=seed)
    return [_beside(one) for one in found]


def models_of(steps: Sequence[str], seeds: int) -> int:
    """How many models the steps take, each counted once however many steps look at it."""
    adversaries = (seeds if "guides" in steps else 0) + (len(STRENGTHS) if "adversary" in steps else 0)
    shared = "guides" in steps and "adversary" in steps  # the adversary of the base seed that guides
    uniform = seeds if "uniform" in steps else 1 if "adversary" in steps else 0
    guided = 4 * seeds if "guides" in steps else 0
    base = seeds if set(steps) - {"dot", "random"} else 0
    return base + uniform + adversaries - shared + guided + seeds * (("dot" in steps) + ("random" in steps))


class Made:
    """Models as they are made, for one bar over all of them; one that is read again was counted."""

    def __init__(self, on_progress: ProgressCallback, of: int):
        self.on_progress, self.of, self.shares = on_progress, of, dict[str, float]()

    def __call__(self, model: str, share: float, now: str) -> None:
        self.shares[model] = max(share, self.shares.get(model, 0.0))
        self.on_progress(f"{model}, {now}" if now else model, sum(self.shares.values()), self.of)


def correlations(read: Sequence[TrainedReadout], attention: str, vectors: str, seed: int = 0) -> list[Finding]:
    """Mean tau by the class that is predicted, and the share of sentences with p up to 0.05, uncorrected as published;
    all words are counted."""
    tau, p = (np.stack([one.more[name] for one in read]) for name in ("tau", "p"))  # (seeds, instances, pairs)
    said = np.stack([one.classes() for one in read])
    made = []
    for column, other, by_chance in ((0, "gradient", 3), (1, "leave one out", 4)):
        for place, name in enumerate(CLASSES):
            here = np.where((said == place)[..., None], tau, np.nan)
            beside = {"random": here[..., by_chance], "gradient and leave one out": here[..., 2]}
            value = compare(here[..., column], beside, seeds=True, scale=(-1.0, 1.0), seed=seed)
            published = TAU.get((attention, other), (None, None))[place]
            made.append(
                Finding.of(
                    value,
                    name=f"tau of {attention} attention and {other}, {name}, {vectors}",
                    better="higher",
                    test="correlation",
                    unit="Kendall tau-b",
                    says=f"undefined: no sentence that is called {name} has words that both rank."
                    if value.value is None
                    else f"Weights and {other} order the words alike by {amount(value.value, 2)} where the model says "
                    f"{name}.",
                    baselines={} if published is None else {"published": published},
                )
            )
            held = np.where(np.isnan(here[..., column]), np.nan, p[..., column] <= 0.05)
            share = estimate(held, seeds=True, seed=seed)
            shares = SIGNIFICANT.get((attention, other), (None, None))[place]
            made.append(
                Finding.of(
                    share,
                    name=f"share with p up to .05, {attention} attention and {other}, {name}, {vectors}",
                    better="higher",
                    test="correlation",
                    unit="share",
                    says=f"undefined: no sentence that is called {name} has words that both rank."
                    if share.value is None
                    else f"In {percent(share.value)} of the sentences, before any correction.",
                    baselines={} if shares is None else {"published": shares},
                )
            )
    return made


def adversaries(read: Sequence[TrainedReadout], seed: int = 0) -> list[Finding]:
    """The largest divergence with a prediction that stays within 0.05, and within 0.01; optimised at 0.01."""
    made = []
    for key, budget in (("far", "0.05"), ("far tight", "0.01")):
        far = np.stack([one.more[key] for one in read])
        for name, statistic in (("median", median), ("mean", mean)):
            random, limit = (np.stack([one.more[kind] for one in read]) for kind in ("random", "limit"))
            value = compare(far, {"random": random}, statistic, seeds=True, scale=(0.0, LARGEST), seed=seed)
            shown = {"published": FAR[name]} if budget == "0.05" else {}
            made.append(
                Finding.of(
                    value,
                    name=f"adversarial attention within {budget}, {name}",
                    better="lower",
                    unit="JSD (max 0.69)",
                    test="adversarial attention",
                    baselines={**shown, "limit": known(limit, statistic)},
                    says=f"Weights that differ by {amount(value.value, 2)} ({name}) give the same prediction within "
                    f"{budget}.",
                )
            )
    return made


def _beside(one: Finding) -> Finding:
    """With the published F1, where there is one."""
    if one.name not in F1:
        return one
    return Finding.from_dict({**one.as_dict(), "baselines": {"published": F1[one.name], **one.baselines}})
