"""The judges are judged: on models made by hand each test says what is true of them."""

from functools import cache

import numpy as np
import pytest
import torch
from tests.judging.built_models import built, texts

from regard.judging import Finding
from regard.judging.adapters.adapter import Adapter
from regard.judging.plausibility.correctness import judge_correctness
from regard.judging.tests.ablation import ablation
from regard.judging.tests.adversarial import adversary
from regard.judging.tests.correlation import correlation
from regard.judging.tests.faithfulness import faithfulness
from regard.judging.tests.infidelity import infidelity
from regard.judging.tests.permutation import permutation

pytest.importorskip("scipy")
MODELS = ("bottleneck", "shortcut", "decorative", "leaky")
TAU, LEFT = "tau of attention and gradient", "tau of attention and leave one out"
SHARE = "adversarial attention, share of what is possible"
# What is true of each model, and so what each test has to say: "better" or "worse" than the baseline by its whole
# interval, or a sentence about the value. docs/judge/built_models.md has the same table with the figures.
EXPECTED = {
    #                             bottleneck   shortcut   decorative  leaky
    "uniform weights: change of the output": ("moves", "moves", "stays", "moves"),
    "permuted weights": ("moves", "moves", "stays", "moves"),
    SHARE: ("little", "little", "all", "little"),
    TAU: ("agrees", "agrees", "chance", "chance"),
    LEFT: ("agrees", "agrees", "chance", "chance"),
    "comprehensiveness of attention": ("better", "better", "not better", "not better"),
    "sufficiency of attention": ("better", "better", "not better", "not better"),
    "units to flip the decision of attention": ("better", "better", "not better", "not better"),
    "decision flipped by the first unit of attention": ("better", "better", "not better", "not better"),
    "infidelity of attention": ("better", "better", "not better", "not better"),
    "infidelity of integrated gradients": ("better", "better", "better", "better"),
    "attention correctness": ("found", "missed", "missed", "missed"),
}


@cache
def judged(name: str) -> dict[str, Finding]:
    model, some, places = built(name)
    adapter = Adapter(model, some)
    weights = [adapter.attention(adapter.inputs([at]))[0].numpy() for at in range(len(some))]
    gold = [np.arange(len(one.tokens)) == place for one, place in zip(some, places, strict=True)]
    found = judge_correctness(weights, gold)
    found += [*ablation(adapter), *faithfulness(adapter), *correlation(adapter), *permutation(adapter, times=20)]
    found += infidelity(adapter, ["attention", "integrated gradients"])
    found += adversary(adapter, starts=2, steps=100, rate=0.1)
    return {one.name: one for one in found}


def says(verdict: str, found: Finding) -> bool:
    assert found.value is not None and found.interval is not None
    low, high = found.interval
    match verdict:
        case "moves":
            return low > 0.2
        case "stays":
            return high < 1e-6
        case "little":
            return high < 0.35
        case "all":
            return low > 0.9
        case "agrees":
            return low > 0.6
        case "chance":
            return high < 0.2
        case "found" | "missed":
            return found.against("random") == ("better" if verdict == "found" else "worse")
        case "better":
            return found.against("random") == "better"
        case "not better":
            return found.against("random") in ("worse", "not significantly different")
    raise ValueError(verdict)


@pytest.mark.parametrize("test", EXPECTED)
@pytest.mark.parametrize("model", MODELS)
def test_a_judge_says_what_is_true_of_a_built_model(model, test):
    verdict = EXPECTED[test][MODELS.index(model)]
    assert says(verdict, judged(model)[test]), (verdict, str(judged(model)[test]))


def test_gradients_order_the_words_of_a_bottleneck_exactly_as_its_weights_do():
    assert judged("bottleneck")[TAU].value == 1.0


def test_value_zeroing_is_fooled_by_decoration():
    # all values are equal, so no unit matters more; but a larger weight takes more of them away
    found = judged("decorative")["value of the top unit silent"]
    assert found.against("random unit") == "better"


def test_a_shortcut_is_faithful_and_its_marks_decide_alone():
    model, _, _ = built("shortcut")
    against = Adapter(model, texts(marked=True, against=True)[0])
    said = torch.stack(against.each(lambda inputs: list(against.predict(inputs).argmax(-1))))
    assert bool((said != torch.tensor(against.labels)).all())
