"""The false-positive rate of reports under the null hypothesis."""

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.maps.attention_map import AttentionMap
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.inputs import Inputs, Instance
from regard.judging.judge import judge
from regard.judging.report import standing
from regard.models.builders import text_classifier

from .models.no_reasons import NearlyEven
from .models.reasons import Bottleneck
from .words import WORDS, is_evidence, texts

# The adversary is not among them: its search begins at the model's own weights, which are not permuted.
TESTS = "task,ablation,places,correlation,permutation,faithfulness,removals,infidelity,rationales"
REPORTS = 200
MOST = 16  # of 200 at a level of .05: the 97.5 % point of their number
COUNT = 40  # instances of each report


@dataclass(frozen=True)
class NullReports:
    """What came of null reports.

    reports   how many
    false     how many have at least one verdict, better or worse
    verdicts  how often each finding of a first page has one
    tried     how often each had a verdict or "not significantly different"
    """

    reports: int
    false: int
    verdicts: dict[str, int]
    tried: dict[str, int]

    @property
    def held(self) -> bool:
        """Whether no more reports are false than chance allows, in proportion to 16 of 200."""
        return self.false <= MOST * self.reports / REPORTS


@dataclass(frozen=True)
class PermutedSelector(AttentionSelector):
    """Reads the model's weights, permuted among the units of the instance: the same numbers, unrelated to the
    prediction. The same text always has the same permutation."""

    seed: int = 0

    def read(self, maps: Mapping[str, AttentionMap], inputs: Inputs) -> Tensor:
        weights = super().read(maps, inputs)
        made = weights.clone()
        for item, units in enumerate(inputs.units):
            draw = np.random.default_rng([self.seed, *inputs.tokens[item][units].tolist()])
            order = torch.from_numpy(draw.permutation(int(units.sum()))).to(weights.device)
            made[item, units] = weights[item, units][order]
        return made


def recurrent(seed: int) -> nn.Module:
    """A recurrent network with additive attention, untrained."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return text_classifier(WORDS, 2, dim=16, width=16)


MODELS: tuple[Callable[[int], nn.Module], ...] = (lambda seed: Bottleneck(), lambda seed: NearlyEven(), recurrent)


def null_adapter(seed: int, count: int = COUNT) -> Adapter:
    """A model whose reported weights, labels and rationales are unrelated to its predictions; half of each class.

    Rationales are permuted too: evidence never stands at the ends of a text, so that weights by position would really
    be better than the permuted ones on it.
    """
    draw, marked = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    some = texts(count, seed=1000 + seed)[0]
    labels = draw.permutation(np.arange(count) % 2)
    shuffled = [
        Instance(one.tokens, int(label), marks=torch.from_numpy(marked.permutation(is_evidence(one.tokens).numpy())))
        for one, label in zip(some, labels, strict=True)
    ]
    return Adapter(MODELS[seed % len(MODELS)](seed).eval(), shuffled, selector=PermutedSelector(seed=seed), size=512)


def null_report(seed: int, count: int = COUNT, tests: str = TESTS) -> dict[str, str]:
    """By finding of the first page, how it stands."""
    torch.set_num_threads(1)
    report = judge(null_adapter(seed, count), tests=tests, seed=seed)
    return {f"{test.name}: {one.name}": standing(one)[1] for test, one in report.headlines()}


def null_reports(
    reports: int = REPORTS,
    count: int = COUNT,
    workers: int = 2,
    tests: str = TESTS,
    on_progress: Callable[[int, int, str], None] | None = None,
    first: int = 0,
) -> NullReports:
    """The null reports first, first + 1, ..., by so many processes, whose number changes nothing. Each report draws
    texts, labels and weights of its own."""
    verdicts, tried, false = Counter[str](), Counter[str](), 0
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for place, found in enumerate(
            pool.map(null_report, range(first, first + reports), [count] * reports, [tests] * reports, chunksize=4)
        ):
            decided = {name: how for name, how in found.items() if how != "undefined"}
            some = [name for name, how in decided.items() if how in ("better", "worse")]
            tried.update(decided.keys())
            verdicts.update(some)
            false += bool(some)
            if on_progress is not None:
                on_progress(place + 1, reports, f"{place + 1} reports, {false} false")
    return NullReports(reports, false, dict(verdicts), dict(tried))
