"""The steps of a decoder run without the function mode, and nothing in them is missed without a word."""

import uuid

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention as aliased
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close

from regard import intervene, interventions, record
from regard.core.torch_private import modes
from regard.recording.capture import decoding_steps, function_mode

LATE = 6  # the step in which something else happens


class Attention(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.qkv, self.attend = nn.Linear(8, 24), attend

    def forward(self, x, cache):
        q, k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if self in cache:
            k, v = (torch.cat(pair, 2) for pair in zip(cache[self], (k, v), strict=True))
        cache[self] = k, v
        return self.attend(q, k, v).transpose(1, 2).flatten(-2)


class Decoder(nn.Module):
    """One layer; `late` is called in one of its steps, with a row of scores and values."""

    def __init__(self, attend=F.scaled_dot_product_attention, late=None):
        super().__init__()
        torch.manual_seed(0)
        self.attention, self.late, self.modes = Attention(attend), late, list[int]()

    def forward(self, x, cache, step):
        self.modes.append(modes())
        y = self.attention(x, cache)
        if step == LATE and self.late is not None:
            y = y + self.late(*cache[self.attention])
        return y


@torch.no_grad()
def generate(model, steps=9):
    torch.manual_seed(1)
    cache, outs = {}, [torch.randn(1, 3, 8)]
    for step in range(steps):
        outs.append(model(outs[-1] if step == 0 else outs[-1][:, -1:], cache, step))
    return torch.cat(outs, 1)


def written_out(softmax):
    def late(k, v):
        return (softmax(k[:, :, -1:] @ k.mT) @ v).transpose(1, 2).flatten(-2)

    return late


@pytest.mark.parametrize(
    "attend", [F.scaled_dot_product_attention, aliased, torch.ops.aten.scaled_dot_product_attention]
)
def test_the_mode_is_away_in_later_steps_and_every_weight_is_exact(attend):
    model = Decoder(attend)
    bare = generate(model)
    model.modes.clear()
    with record(model) as rec:
        out = generate(model)
        assert modes() == 1
    assert torch.equal(bare, out) and not rec.missed and not modes()
    assert model.modes == [1, 1, 1, *[0] * 6]
    with record(Decoder(lambda q, k, v: torch.softmax(q @ k.mT / 2, -1) @ v)) as written:
        generate(written._names.model)
    for name, amap in written.maps.items():
        if name != "attention":  # the prompt is causal in neither
            assert_close(rec.maps[name].weights(), amap.weights())
    assert len(rec.maps) == len(written.maps) == 9


@pytest.mark.parametrize(
    "softmax",
    [
        lambda s: torch.softmax(s, -1),
        lambda s: s.softmax(-1),
        lambda s: torch.ops.aten._softmax(s, -1, False),
        lambda s: torch.nn.Softmax(-1)(s),
        lambda s: F.log_softmax(s, -1).exp(),
    ],
)
def test_a_softmax_that_comes_in_a_later_step_is_told(softmax):
    model = Decoder(late=written_out(softmax))
    bare = generate(model)
    with record(model) as rec:
        out = generate(model)
    assert torch.equal(bare, out) and len(rec.maps) == 9
    assert any("softmax" in missed.operator and missed.line for missed in rec.missed), rec.missed


def test_sigmoid_attention_that_comes_in_a_later_step_brings_the_mode_back():
    model = Decoder(late=lambda k, v: (torch.sigmoid(k[:, :, -1:]) * v[:, :, -1:]).transpose(1, 2).flatten(-2))
    with record(model) as rec:
        generate(model)
    assert model.modes == [1, 1, 1, 0, 0, 0, 0, 1, 1] and len(rec.maps) == 9


def test_a_fused_kernel_that_comes_in_a_later_step_is_recorded():
    def late(k, v):
        out, _ = torch.ops.aten._scaled_dot_product_attention_math(k[:, :, -1:], k, v)
        return out.transpose(1, 2).flatten(-2)

    model = Decoder(late=late)
    with record(model) as rec:
        generate(model)
    assert len(rec.maps) == 10 and not rec.missed


def test_flex_attention_in_a_later_step_is_recorded():
    from torch.nn.attention.flex_attention import flex_attention

    def late(k, v):
        return flex_attention(k[:, :, -1:], k, v).transpose(1, 2).flatten(-2)

    model = Decoder(late=late)
    with record(model) as rec:
        generate(model)
    assert len(rec.maps) == 10 and not rec.missed


def test_an_operator_that_is_registered_in_a_later_step_is_told():
    def late(k, v):
        @torch.library.custom_op(f"regard_tests::attend_{uuid.uuid4().hex}", mutates_args=())
        def operator(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return torch.softmax(q @ k.mT, -1) @ v

        return operator(k[:, :, -1:], k, v).transpose(1, 2).flatten(-2)

    model = Decoder(late=late)
    bare = generate(model)
    with record(model) as rec:
        out = generate(model)
    assert torch.equal(bare, out)
    assert any("softmax" in missed or "regard_tests::attend" in missed for missed in rec.missed), rec.missed


def test_a_step_that_leaves_inference_mode_is_watched_to_its_end():
    softmax = written_out(lambda s: torch.softmax(s, -1))

    def late(k, v):
        with torch.inference_mode():
            k.exp2  # noqa: B018 nothing but the block
        return softmax(k, v)

    with record(model := Decoder(late=late)) as rec, torch.inference_mode():
        generate(model)
    assert any("softmax" in missed for missed in rec.missed)


def test_a_step_that_raises_leaves_the_modes_as_they_were():
    class Named(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    def late(k, v):
        raise KeyError("late")

    model = Decoder(late=late)
    with Named(), record(model) as rec, pytest.raises(KeyError, match="late"):
        generate(model)
    assert not modes() and not model._forward_hooks and not model._forward_pre_hooks and len(rec.maps) == LATE + 1


def test_a_mode_that_a_step_enters_keeps_its_place():
    names = []

    class Named(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    def late(k, v):
        with Named():
            y = written_out(lambda s: torch.softmax(s, -1))(k, v)
            depth = modes()
            assert depth == 2  # the recorder's came back below
        assert modes() == 1
        return y

    with record(model := Decoder(late=late)) as rec:
        generate(model)
    assert "softmax" in names and any("softmax" in missed for missed in rec.missed) and not modes()


def test_sampling_between_the_steps_is_no_attention():
    model = Decoder()
    with record(model) as rec, torch.no_grad():
        cache, x = {}, torch.randn(1, 3, 8)
        for step in range(9):
            out = model(x, cache, step)
            x = torch.randn(1, 1, 8) * torch.multinomial(torch.softmax(out[0, -1], -1), 1)
    assert not rec.missed and len(rec.maps) == 9


def test_an_intervention_that_begins_later_has_the_mode_back():
    model = Decoder()
    with record(model), torch.no_grad():
        generate(model)
        with intervene(model, {"*": interventions.Uniform()}), record(model) as rec:
            generate(model, 1)
    assert_close(rec.maps["attention"].weights(), torch.full((1, 2, 3, 3), 1 / 3))


@pytest.mark.parametrize(
    "owner, name",
    [
        (decoding_steps.DecodingSteps, "begins"),
        (decoding_steps.DecodingSteps, "ends"),
        (decoding_steps.DecodingSteps, "watch"),
        (decoding_steps.WatchedOperators, "watch"),
        (function_mode.RecordingMode, "_may_leave"),
        (decoding_steps, "_registered"),
    ],
)
def test_a_fault_in_what_runs_around_a_step_is_an_entry_and_the_run_goes_on(owner, name, monkeypatch):
    def fault(*_):
        raise ArithmeticError("a fault")

    model = Decoder()
    bare = generate(model)
    monkeypatch.setattr(owner, name, fault)
    with record(model) as rec:
        out = generate(model)
    assert torch.equal(bare, out) and not modes() and not model._forward_pre_hooks
    assert any("ArithmeticError: a fault" in missed for missed in rec.missed)


def test_an_operator_that_cannot_be_watched_keeps_the_mode_where_it_is(monkeypatch):
    monkeypatch.setattr(decoding_steps, "operators", decoding_steps.WatchedOperators())
    monkeypatch.setattr(decoding_steps, "_watched", lambda name: 1 / 0)
    model = Decoder()
    with record(model) as rec:
        generate(model)
    assert model.modes == [1] * 9 and len(rec.maps) == 9 and not rec.missed
