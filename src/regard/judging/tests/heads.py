"""Does the mean of the heads represent them? Heads that do nothing, that disagree, the best and the worst."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.recording.interventions.interventions import DropHeads

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs, NotApplicable
from ..artifacts import Caution, Grid, add_artifact
from ..attribution.importance import Importance, attention
from ..finding import Finding
from ..registry import asks
from ..statistics.comparison import compare
from ..statistics.divergence import tvd
from ..statistics.intervals import estimate, known
from ..wording import amount, loses
from .correlation import kendall
from .faithfulness import BINS, RANDOM, erased_by

TEST = "heads"
NOTHING = 0.001  # a head that moves no prediction by more is said to change nothing
ALIKE = 0.5  # a head below this tau-b with the mean of the others is said to disagree with it
NAMED = 8  # heads that a sentence names
Head = tuple[str, int]


@asks("Does the mean of the heads represent each of them?", first=2, aspect="trap")
def heads(adapter: Adapter, *, seed: int = 0) -> list[Finding]:
    """Each head of the judged sites, alone: what its removal changes, how far its weights agree with the mean of the
    other heads, and comprehensiveness of the best and of the worst.

    removed    no prediction moves by more than 0.001 (total variation) without the head: alone it does nothing, and its
               weights are in the mean all the same; all of these heads are then removed at once
    agreement  Kendall's tau-b of its weights with the mean of the others, mean of the instances
    best, worst  by comprehensiveness. They are chosen on one half of the instances and measured on the other, both
               ways, since the best of many on the same instances is best by chance too

    Michel et al. 2019; Voita et al. 2019.
    """
    names = list(adapter.selector.read_heads(adapter.maps(adapter.inputs([0])), adapter.inputs([0])))
    if len(names) < 2:
        raise NotApplicable("The judged attention has one head: nothing is averaged.")
    moved = {head: removed(adapter, [head]) for head in names}
    tau = agreement_with_others(adapter)
    measures: dict[str, Importance] = {_called(head): _of_head(head) for head in names}
    erased = erased_by(adapter, {"mean": attention, **measures}, BINS, seed, flips=False)
    table = np.stack([erased[_called(head)][:, 0] for head in names], 1)
    _show(names, moved, tau, erased)
    dead, apart = dead_heads(adapter, moved, TEST), _disagreement(names, tau, seed)
    if dead.value:
        add_artifact(Caution("Redundant heads", dead.says))
    if _apart(names, tau):
        add_artifact(Caution("Heads that disagree", apart.says))
    return [dead, apart, *_extremes(table, erased, seed)]


def dead_heads(adapter: Adapter, moved: Mapping[Head, np.ndarray], test: str) -> Finding:
    """The share of heads whose removal changes nothing, with their names; moved: total variation of each instance
    without each head alone. Heads that do the same can be spared one by one: so all of them are removed at once too."""
    spared = [head for head, far in moved.items() if np.nanmax(far) <= NOTHING]
    many, do = f"{len(spared)} of {len(moved)} heads", "does" if len(spared) == 1 else "do"
    if not spared:
        says = "Every head changes some prediction when it is removed."
    elif (together := float(np.nanmax(removed(adapter, spared)))) <= NOTHING:
        says = f"Without {_listed(spared)} no prediction moves by more than {NOTHING}: {many} {do} nothing."
    else:
        says = (
            f"Removing any one of {_listed(spared)} moves no prediction by more than {NOTHING}, removing all of "
            f"them by up to {together:.3f}: {many} are redundant one by one."
        )
    return Finding(
        "heads whose removal changes nothing",
        len(spared) / len(moved),
        says,
        "neither",
        len(adapter),
        test,
        "share of heads",
    )


def agreement_with_others(adapter: Adapter) -> np.ndarray:
    """(instances, heads): tau-b of the weights of each head with the mean of the other heads; NaN where undefined."""

    def measure(inputs: Inputs) -> list[list[float]]:
        by_head = torch.stack(list(adapter.selector.read_heads(adapter.maps(inputs), inputs).values())).double()
        others = (by_head.sum(0) - by_head) / (len(by_head) - 1)
        made = []
        for item, units in enumerate(inputs.units):
            one, mean = (x[:, item][:, units].cpu().numpy() for x in (by_head, others))
            made.append([kendall(a, b)[0] for a, b in zip(one, mean, strict=True)])
        return made

    return np.asarray(adapter.each(measure), dtype=np.float64)


def _disagreement(names: list[Head], tau: np.ndarray, seed: int) -> Finding:
    defined, apart = _defined(names, tau), _apart(names, tau)
    value = estimate(_row_means(tau), seed=seed)
    if value.value is None:
        says = "undefined: no instance has three units to which a head gives different weights."
    else:
        low, high = amount(min(defined.values()), 2), amount(max(defined.values()), 2)
        span = f"by {low if low == high else f'{low} to {high}'}, where 1 is the same order"
        rest = f"Their mean does not represent {_listed(apart)}." if apart else f"None is below {ALIKE}."
        says = f"Heads agree with the mean of the others {span}. {rest}"
    return Finding.of(
        value,
        name="tau of a head and the mean of the others",
        better="neither",
        test=TEST,
        unit="Kendall tau-b, mean of the heads",
        says=says,
        baselines={"chance": 0.0},
    )


def _defined(names: list[Head], tau: np.ndarray) -> dict[Head, float]:
    """The mean tau of each head that has one."""
    found = {head: known(tau[:, column]) for column, head in enumerate(names)}
    return {head: value for head, value in found.items() if value is not None}


def _apart(names: list[Head], tau: np.ndarray) -> list[Head]:
    """The heads for which their mean does not speak, the furthest first."""
    defined = _defined(names, tau)
    return sorted((head for head, x in defined.items() if x < ALIKE), key=defined.__getitem__)


def _extremes(table: np.ndarray, erased: Mapping[str, np.ndarray], seed: int) -> list[Finding]:
    made = []
    for name, choose in (("best", np.argmax), ("worst", np.argmin)):
        beside = {RANDOM: erased[RANDOM][..., 0], "mean of the heads": erased["mean"][:, 0]}
        value = compare(cross_fitted(table, choose), beside, scale=(-1.0, 1.0), seed=seed)
        says = (
            "undefined: no instance keeps a unit when units are erased."
            if value.value is None
            else f"Without the units of largest weight in the {name} head the class {loses(value.value)}; by the mean "
            f"of the heads it {loses(value.baselines['mean of the heads'])}, with random ones it "
            f"{loses(value.baselines[RANDOM])}."
        )
        made.append(
            Finding.of(
                value,
                name=f"comprehensiveness of the {name} head",
                better="higher",
                test=TEST,
                unit="probability",
                says=says,
            )
        )
    return made


def cross_fitted(table: np.ndarray, choose: "Callable[[np.ndarray], np.integer]") -> np.ndarray:
    """(instances,): of (instances, heads) the number of the head that was chosen by the mean of the other half."""
    found = np.full(len(table), np.nan)
    half = np.arange(len(table)) % 2
    for side in (0, 1):
        others = table[half != side]
        others = others[~np.isnan(others).any(1)]
        if len(others):
            found[half == side] = table[half == side, int(choose(others.mean(0)))]
    return found


def removed(adapter: Adapter, some: Sequence[Head]) -> np.ndarray:
    """(instances,): the total variation of the prediction without these heads."""
    sites = dict.fromkeys(site for site, _ in some)
    changes = {site: DropHeads([head for at, head in some if at == site]) for site in sites}

    def measure(inputs: Inputs) -> list[float]:
        found: list[float] = tvd(adapter.predict(inputs), adapter.predict(inputs, changes)).tolist()
        return found

    return np.asarray(adapter.each(measure), dtype=np.float64)


def _of_head(head: Head) -> Importance:
    def read(adapter: Adapter, inputs: Inputs) -> Tensor:
        return adapter.selector.read_heads(adapter.maps(inputs), inputs)[head].double()

    return read


def _show(
    names: list[Head], moved: Mapping[Head, np.ndarray], tau: np.ndarray, erased: Mapping[str, np.ndarray]
) -> None:
    rows = [
        [
            known(moved[head]),
            known(tau[:, column]),
            known(erased[_called(head)][:, 0]),
            known(erased[_called(head)][:, 1]),
        ]
        for column, head in enumerate(names)
    ]
    mean = [None, None, known(erased["mean"][:, 0]), known(erased["mean"][:, 1])]
    add_artifact(
        Grid(
            "Each head beside their mean",
            ["mean of the heads", *(_called(head) for head in names)],
            ["moves when removed", "tau with the others", "comprehensiveness", "sufficiency"],
            [mean, *rows],
            "means of the instances",
            "All other tests judge the first line.",
            down="head",
            across="measure",
        )
    )


def _row_means(table: np.ndarray) -> np.ndarray:
    some = ~np.isnan(table)
    return np.where(some.any(1), np.where(some, table, 0.0).sum(1) / some.sum(1).clip(1), np.nan)


def _called(head: Head) -> str:
    return f"head {head[1]} of {head[0]}"


def _listed(some: list[Head]) -> str:
    """Their names, those of one site together; of many the first."""
    shown = some[:NAMED]
    sites = dict.fromkeys(site for site, _ in shown)
    parts = []
    for site in sites:
        own = [str(head) for at, head in shown if at == site]
        parts.append(f"head{'s' * (len(own) > 1)} {_and(own)} of {site or 'the model'}")
    more = len(some) - len(shown)
    return _and(parts) + (f" and {more} more" if more else "")


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
