"""A function whose operations are kept gives its own bits, also for other numbers; what cannot be kept is run."""

import pytest
import torch
from tests.judging.adapters.test_adapter import bert, recurrent
from torch import Tensor
from torch.testing import assert_close

from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.trace_replay import replayed
from regard.judging.tests import adversarial as adversary
from regard.judging.tests import permutation

KNOWN = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def several(x: Tensor, y: Tensor) -> list[Tensor]:
    """Views, a write into what was made, two outputs of one operation, a part that is detached, one that is known."""
    made = torch.cat([x.T, KNOWN.tanh().T], 1).clone()
    made[0] = 0.5
    made.add_(torch.zeros(4, 6).copy_(made))
    values, places = made.sort(-1)
    return [values @ y.detach() + places, x * y.sum(), KNOWN]


def counted(function):
    def run(*given):
        run.times += 1
        return function(*given)

    run.times = 0
    return run


def test_other_numbers_give_the_bits_of_the_function_and_its_gradients():
    x, y = torch.randn(3, 4), torch.randn(6, 2)
    own = lambda a, b: several(a, b[:, :1])  # noqa: E731
    kept = replayed(counted(own), x, y)
    assert not hasattr(kept, "times")  # the tape, not the function
    other = [torch.randn(3, 4).requires_grad_(), torch.randn(6, 2).requires_grad_()]
    for one, two in zip(kept(*other), own(*other), strict=True):
        assert torch.equal(one, two)
    gradients = [torch.autograd.grad(sum(out.sum() for out in run(*other)), other) for run in (kept, own)]
    assert_close(gradients[0], gradients[1], atol=0.0, rtol=0.0)
    assert gradients[0][1].abs().sum() > 0


def reads_a_number(x: Tensor) -> list[Tensor]:
    return [x * 2 if bool(x.sum() > 0) else x * 3]


def draws(x: Tensor) -> list[Tensor]:
    return [x + torch.randn(3)]


KEPT = torch.zeros(4)


def writes_into_a_part_of_what_is_kept(x: Tensor) -> list[Tensor]:
    KEPT[1:].copy_(x)
    return [KEPT.cumsum(0)]


@pytest.mark.parametrize("function", [reads_a_number, draws, writes_into_a_part_of_what_is_kept])
def test_what_cannot_be_kept_is_returned_as_it_is(function):
    assert replayed(function, torch.ones(3)) is function


@pytest.mark.parametrize(
    "make", [recurrent, lambda: bert(selector=AttentionSelector(row="mean"))], ids=["recurrent", "bert"]
)
def test_the_adversary_and_permutation_find_what_they_find_without_it(make, monkeypatch):
    tapes = []

    def watched(function, *given):
        tapes.append(replayed(function, *given) is not function)
        return replayed(function, *given)

    found = []
    for way in (watched, lambda function, *given: function):
        monkeypatch.setattr(adversary, "replayed", way)
        monkeypatch.setattr(permutation, "replayed", way)
        sought = adversary.seek(make(), starts=3, steps=20, rate=0.1)
        found.append(
            [
                sought.far,
                sought.moved,
                sought.start,
                sought.limit,
                *sought.weights,
                *sought.said,
                permutation.moved(make(), times=3),
            ]
        )
    assert tapes and all(tapes)
    for one, two in zip(*found, strict=True):
        assert_close(torch.from_numpy(one), torch.from_numpy(two), atol=1e-7, rtol=1e-6, equal_nan=True)
