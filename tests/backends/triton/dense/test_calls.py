"""Calls of the dense kernels that are done again, with their gradients: as on a GPU, by the interpreter."""

import pytest
import torch

pytest.importorskip("triton")

from tests.backends.addressed import addressed

from regard import ALiBi, Causal, Padding, ScaledDot, Sink, attend
from regard.backends.triton.dense import launch as launches
from regard.backends.triton.dense.backend import TritonDense
from regard.core.plan import make_plan


def both(q, k, v, pull, score, align, over, how):
    """out and the gradients of q, k, v."""
    if how == "reference":
        out = attend(q, k, v, score, align, over, backend="reference").out
    else:
        out = TritonDense().run(make_plan(q, k, v, score, align, over)).out
    return [out, *torch.autograd.grad(out, (q, k, v), pull)]


def drawn(heads_last=False):
    """q, k, v and what is handed back; heads_last: as projections leave them, (1, n, H, d) in memory."""
    drawn = [torch.randn(1, 6, 2, 8).transpose(1, 2) for _ in range(4)]
    *qkv, pull = drawn if heads_last else map(torch.Tensor.contiguous, drawn)
    return *(x.requires_grad_() for x in qkv), pull


CASES = {
    "softmax": ("scaled_dot", "softmax", None, False),
    "softmax, heads last": ("scaled_dot", "softmax", None, True),
    "entmax, heads last": ("scaled_dot", "entmax15", Causal(), True),
    "sigmoid": ("scaled_dot", "sigmoid", Padding(torch.tensor([4])), False),
    "gaussian": ("gaussian", "softmax", None, False),
    "additive, heads last": ("additive", "softmax", None, True),
}


@pytest.mark.parametrize("case", CASES)
def test_calls_and_gradients_that_are_done_again_are_those_of_their_own_tensors(case, monkeypatch, small_tiles):
    score, align, over, heads_last = CASES[case]
    run, back = addressed(monkeypatch, launches)
    for count in range(4):
        given = drawn(heads_last)
        if count == 3:
            monkeypatch.setattr(back, "tapes", None)  # what follows a known call is not asked about
        mine, true = (both(*given, score, align, over, how) for how in ("ours", "reference"))
        for x, y in zip(mine, true, strict=True):
            torch.testing.assert_close(x, y, rtol=2e-5, atol=2e-5)
    assert len(run.tapes) == 1 and all(tape.complete and tape.backward_tape for tape in run.tapes.values())


def test_a_gradient_of_other_strides_is_not_the_one_that_is_linked(monkeypatch):
    run, back = addressed(monkeypatch, launches)
    for _ in range(4):
        both(*drawn(), "scaled_dot", "softmax", None, "ours")
    ((known, _),) = (tape.backward_tape for tape in run.tapes.values())
    assert [known] == list(back.tapes.values())
    q, k, v, pull = drawn()
    turned, plain = (both(q, k, v, x, "scaled_dot", "softmax", None, "ours") for x in (pull.mT.contiguous().mT, pull))
    both(q, k, v, pull.mT.contiguous().mT, "scaled_dot", "softmax", None, "ours")  # seen a second time, it is recorded
    assert len(back.tapes) == 2 and all(torch.equal(x, y) for x, y in zip(turned, plain, strict=True))


def test_a_modified_call_is_launched_by_triton_each_time_and_never_replayed(monkeypatch):
    """What its modifiers hold is given in tuples, which no tape has; a call without them is taped beside it."""
    run, back = addressed(monkeypatch, launches)
    for _ in range(3):
        given = drawn()
        score = ScaledDot() | ALiBi(slopes=torch.rand(2)) | Sink(torch.randn(2))
        mine, true = (both(*given, score, "softmax", None, how) for how in ("ours", "reference"))
        for x, y in zip(mine, true, strict=True):
            torch.testing.assert_close(x, y, rtol=2e-5, atol=2e-5)
    assert not any(tape.complete for tape in (*run.tapes.values(), *back.tapes.values()))
