"""Replayed calls give what the function gives, and nothing else is replayed."""

import ctypes
import weakref

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

import triton.language as tl
from torch.utils._python_dispatch import TorchDispatchMode
from triton import knobs
from triton.runtime.jit import JITFunction

from regard import Refused
from regard.backends.custom_op import gradients, operator
from regard.backends.triton.runtime import fast_launcher, launch_replay
from regard.backends.triton.runtime.fast_launcher import BoundKernel, Launched, current_tape
from regard.backends.triton.runtime.launch_replay import LaunchReplay, alloc, record_op
from regard.core import fast_path


def sample_kernel(X, Y, OUT, n, scale, ADDED: tl.constexpr):
    """OUT[:n] = scale X[:n] + Y[:n] + ADDED"""


class OnCpu:
    """A kernel that runs here: by tensors where Triton would compile it, by addresses once it is compiled."""

    def __init__(self):
        self.params = JITFunction(sample_kernel).params
        self.asked = self.ran = 0

    def __getitem__(self, grid):
        def compile(x, y, out, n, scale, ADDED, **options):
            self.asked += 1
            self._run(x.data_ptr(), y.data_ptr(), out.data_ptr(), n, scale, ADDED)
            return Compiled(self)

        return compile

    def _run(self, x, y, out, n, scale, added, stream=None):
        self.ran += 1
        x, y, out = (np.ctypeslib.as_array((ctypes.c_float * n).from_address(at)) for at in (x, y, out))
        out[:] = scale * x + y + added


class Compiled:
    """Launched by Triton's Python, which tells those who listen, or by what it calls in the end."""

    function = packed_metadata = None

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return self.kernel._run

    def run(self, x, y, z, stream, function, metadata, told, enter, leave, *arguments):
        self.kernel._run(*arguments, stream)


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: -1)  # what tensors of a CPU say
    monkeypatch.setattr(fast_path, "enabled", True)
    monkeypatch.setattr(fast_launcher, "untested_triton", lambda: None)
    return Launched(OnCpu())


def drawn(*shape):
    return torch.rand(*shape)


def chain(kernel, seen):
    """2 x + y + 1, times 3, plus y's second half twice; into memory that was full of zeros. seen: calls of the body."""

    def function(x, y, scale, missing):
        seen.append(1)
        n = x.numel()
        middle, out, half = alloc(x.shape, x.device), alloc(x.shape, x.device, zero=True), alloc(n // 2, x.device)
        kernel[1,](x, y, middle, n, scale, ADDED=1)
        kernel[1,](middle, out, out, n, 3.0, ADDED=0)
        kernel[1,](y[n // 2 :], y[n // 2 :], half, n // 2, 1.0, ADDED=0)
        return [out, half]

    return LaunchReplay(function)


def expected(x, y, scale):
    return [3 * (scale * x + y + 1), 2 * y[x.numel() // 2 :]]


def close(found, true):
    for mine, other in zip(found, true, strict=True):
        torch.testing.assert_close(mine, other)


def test_every_call_gives_what_the_function_gives_with_its_own_tensors(kernel):
    seen = []
    run = chain(kernel, seen)
    for _ in range(5):
        x, y = drawn(64), drawn(64)
        close(run(x, y, 2.0, None), expected(x, y, 2.0))
    assert len(seen) == 2  # seen once, and recorded
    results = [run(x, y, 2.0, None) for _ in range(2)]
    assert results[0][0].data_ptr() != results[1][0].data_ptr()


def test_what_kernels_alone_meet_shares_one_memory(kernel, monkeypatch):
    def function(x, y):
        n = x.numel()
        one, two, out = (alloc(size, x.device) for size in (n, 2 * n + 1, n))
        kernel[1,](x, y, one, n, 1.0, ADDED=0)
        kernel[1,](y, y, two[4:], n, 1.0, ADDED=0)
        kernel[1,](one, two[4:], out, n, 1.0, ADDED=0)
        return [out]

    replayed, made, empty = LaunchReplay(function), [], torch.empty
    for _ in range(5):
        x, y = drawn(32), drawn(32)
        monkeypatch.setattr(torch, "empty", lambda *a, **k: made.append(a[0]) or empty(*a, **k))
        found = replayed(x, y)
        monkeypatch.setattr(torch, "empty", empty)
        close(found, [x + 3 * y])
    assert made[-2:] == [512 + 512, (32,)]


def test_a_tensor_given_twice_is_recorded_as_two(kernel):
    seen = []

    def function(x, y):
        seen.append(1)
        out = alloc(x.shape, x.device)
        kernel[1,](x, y, out, x.numel(), 2.0, ADDED=0)
        return [out]

    run = LaunchReplay(function)
    x, y = drawn(64), drawn(64)
    for one, other in ((x, x), (x, x), (x, y), (y, x), (x, x)):
        close(run(one, other), [2 * one + other])
    assert len(seen) == 2


def test_parts_of_one_memory_are_told_apart(kernel):
    seen = []
    run = chain(kernel, seen)
    both = drawn(128)
    for x, y in ((both[:64], both[64:]), (both[:64], both[64:]), (drawn(64), drawn(64)), (both[64:], both[:64])):
        close(run(x, y, 2.0, None), expected(x, y, 2.0))
    assert len(seen) == 4  # whose part `y[32:]` is cannot be said where both lie in one memory


@pytest.mark.parametrize(
    "other",
    [
        lambda x, y: (x, y, 1.0, None),
        lambda x, y: (x, y, 1, None),
        lambda x, y: (x, y, True, None),
        lambda x, y: (x, y, 3.0, None),
        lambda x, y: (x[:32], y[:32], 2.0, None),
        lambda x, y: (x, y, 2.0, 0),
    ],
)
def test_a_call_with_another_key_is_not_the_one_that_was_recorded(kernel, other):
    seen = []
    run = chain(kernel, seen)
    x, y = drawn(64), drawn(64)
    for _ in range(3):
        run(x, y, 2.0, None)
    given = other(x, y)
    close(run(*given), expected(*given[:3]))
    assert len(seen) == 3


def test_strides_are_part_of_the_key(kernel):
    def function(x):
        out = alloc(x.shape, x.device)
        flat = x.contiguous()
        kernel[1,](flat, flat, out, x.numel(), 0.0, ADDED=0)
        return [out]

    run = LaunchReplay(function)
    for x in (drawn(8, 8), drawn(8, 8), drawn(8, 8).mT, drawn(8, 8).mT, drawn(8, 8).mT, drawn(8, 8)):
        close(run(x), [x])


def test_what_torch_computes_in_between_is_never_left_out(kernel):
    seen = []

    def function(x):
        seen.append(1)
        out = alloc(x.shape, x.device)
        kernel[1,](x.square(), x, out, x.numel(), 1.0, ADDED=0)
        return [out]

    run = LaunchReplay(function)
    for count in range(1, 5):
        x = drawn(64)
        close(run(x), [x.square() + x])
        assert len(seen) == count


def test_what_torch_computes_by_record_op_is_computed_again(kernel):
    """Before a launch, from what a launch wrote, and where it gives back what it was given."""
    seen = []

    def function(x, power):
        seen.append(1)
        out = alloc(x.shape, x.device)
        same = record_op(torch.Tensor.contiguous, x)
        kernel[1,](record_op(torch.pow, same, power), x, out, x.numel(), 1.0, ADDED=0)
        return [record_op(torch.sum, out), out]

    run = LaunchReplay(function)
    for _ in range(5):
        x = drawn(64)
        true = x.pow(3) + x
        close(run(x, 3), [true.sum(), true])
    assert len(seen) == 2
    for _ in range(3):
        close(run(x, 2), [(x.square() + x).sum(), x.square() + x])


@pytest.mark.parametrize("hidden", [lambda x: record_op(torch.neg, x.square()), lambda x: record_op(torch.neg, x[:64])])
def test_what_is_computed_from_unrecorded_tensors_is_never_left_out(kernel, hidden):
    seen = []

    def function(x):
        seen.append(1)
        out = alloc(64, x.device)
        kernel[1,](hidden(x), x, out, 64, 1.0, ADDED=0)
        return [out]

    run = LaunchReplay(function)
    for count in range(1, 5):
        x = drawn(80)
        close(run(x), [hidden(x)[:64] + x[:64]])
        assert len(seen) == count


@pytest.mark.parametrize("made", [lambda out: out[:32], lambda out: out * 2, lambda out: out.view(8, 8)])
def test_results_that_are_not_the_memory_itself_are_made_by_the_function(kernel, made):
    def function(x):
        out = alloc(x.shape, x.device)
        kernel[1,](x, x, out, x.numel(), 0.0, ADDED=0)
        return [made(out)]

    run = LaunchReplay(function)
    for _ in range(4):
        x = drawn(64)
        close(run(x), [made(x)])


def test_a_call_without_a_launch_is_not_replayed():
    run = LaunchReplay(lambda x: [alloc(x.shape, x.device).copy_(x)])
    for _ in range(4):
        x = drawn(64)
        close(run(x), [x])


def test_memory_that_starts_anywhere_is_left_to_the_function(kernel):
    seen = []
    run = chain(kernel, seen)
    for _ in range(3):
        run(drawn(64), drawn(64), 2.0, None)
    x, y = drawn(65)[1:], drawn(64)
    assert x.data_ptr() % 16
    close(run(x, y, 2.0, None), expected(x, y, 2.0))
    assert len(seen) == 3


def test_memory_that_always_starts_elsewhere_is_replayed_too(kernel):
    seen = []
    run = chain(kernel, seen)
    for _ in range(4):
        x, y = drawn(65)[1:], drawn(64)
        close(run(x, y, 2.0, None), expected(x, y, 2.0))
    assert len(seen) == 2
    for at in (2, 3, 4):  # elsewhere again, where a half of it may start otherwise
        z = drawn(68)[at : at + 64]
        close(run(z, y, 2.0, None), expected(z, y, 2.0))
    assert len(seen) == 5
    close(run(y, x, 2.0, None), expected(y, x, 2.0))
    close(run(y, y, 2.0, None), expected(y, y, 2.0))
    assert len(seen) == 7


def test_a_call_that_fails_while_it_is_recorded_is_not_replayed(kernel):
    fails = []

    def function(x):
        out = alloc(x.shape, x.device)
        kernel[1,](x, x, out, x.numel(), 0.0, ADDED=0)
        if fails:
            raise MemoryError
        return [out]

    run = LaunchReplay(function)
    run(drawn(64))
    fails.append(1)
    with pytest.raises(MemoryError):
        run(drawn(64))
    fails.clear()
    for _ in range(3):
        x = drawn(64)
        close(run(x), [x])
    assert current_tape() is None


def test_a_tape_holds_no_tensor(kernel):
    run = chain(kernel, [])
    for _ in range(3):
        given = [drawn(64), drawn(64)]
        results = run(*given, 2.0, None)
        kept = [weakref.ref(x) for x in (*given, *results)]
        del given, results
        assert [x() for x in kept] == [None] * 4


def test_tapes_are_bounded(kernel, monkeypatch):
    monkeypatch.setattr(launch_replay, "CAPACITY", 4)
    run = chain(kernel, [])
    for n in (16, 16, 32, 32, 48, 48, 64, 64, 80, 80, 96, 96, 16, 16, 16):
        x, y = drawn(n), drawn(n)
        close(run(x, y, 2.0, None), expected(x, y, 2.0))
        assert len(run.tapes) <= 4


def test_a_bound_kernel_is_compiled_once_and_writes_each_result(kernel):
    x, y = drawn(32), drawn(32)
    held = BoundKernel(kernel, (x, y), {"ADDED": 1})
    for n, scale in ((32, 2.0), (16, 3.0), (5, 0.5)):
        out = torch.zeros(32)
        held((1, 1, 1), out, (n, scale))
        torch.testing.assert_close(out[:n], (scale * x + y + 1)[:n])
        assert not out[n:].any()
    assert kernel.kernel.asked == 1 and kernel.kernel.ran == 3


def test_a_bound_kernel_leaves_memory_that_starts_anywhere_to_the_launch(kernel):
    x, y, out = drawn(32), drawn(32), torch.zeros(33)[1:]
    held = BoundKernel(kernel, (x, y), {"ADDED": 0})
    for _ in range(2):
        held((1, 1, 1), out, (32, 1.0))
    torch.testing.assert_close(out, x + y)
    assert held.compiled is None
    held((1, 1, 1), torch.zeros(32), (32, 1.0))
    assert kernel.kernel.asked == 2 and held.compiled is not None


class Scaled:
    """The operator scale x + y, whose gradients are kernels too. bodies: calls of each that were not replayed."""

    made = 0

    def __init__(self, kernel):
        Scaled.made += 1
        self.bodies = {"forward": 0, "backward": 0}

        def forward(x, y, scale):
            self.bodies["forward"] += 1
            out = alloc(tuple(x.shape), x.device)
            kernel[1,](x, y, out, x.numel(), scale, ADDED=0)
            return (out,)

        def backward(x, y, scale, out, dout):
            self.bodies["backward"] += 1
            dout, found = record_op(torch.Tensor.contiguous, dout), [alloc(tuple(x.shape), x.device) for _ in (x, y)]
            for dx, factor in zip(found, (scale, 1.0), strict=True):
                kernel[1,](dout, dout, dx, x.numel(), factor - 1, ADDED=0)
            return found

        self.run = LaunchReplay(forward)
        self.run.backward = self.back = LaunchReplay(backward)
        run, back = self.run, self.back

        @operator(f"test_scaled_{Scaled.made}")
        def scaled(x: torch.Tensor, y: torch.Tensor, scale: float) -> tuple[torch.Tensor]:
            return run(x, y, scale)

        @operator(f"test_scaled_{Scaled.made}_backward")
        def scaled_back(
            x: torch.Tensor, y: torch.Tensor, scale: float, out: torch.Tensor, dout: torch.Tensor
        ) -> list[torch.Tensor]:
            return list(back(x, y, scale, out, dout))

        def setup(ctx, inputs, output):
            ctx.numbers, ctx.tape = inputs[2:], getattr(output, "tape", None)
            ctx.save_for_backward(*inputs[:2], *output)

        scaled.register_autograd(lambda ctx, dout: (*gradients(ctx, scaled_back, 2, dout)[1], None), setup)
        scaled_back.once_differentiable("test")
        self.op = scaled

    def check(self, dout=None, scale=3.0):
        x, y = drawn(8, 4).requires_grad_(), drawn(8, 4).requires_grad_()
        (out,) = self.op(x, y, scale)
        torch.testing.assert_close(out.detach(), (scale * x + y).detach())
        dout = drawn(8, 4) if dout is None else dout
        close(torch.autograd.grad(out, (x, y), dout), [scale * dout, dout])


@pytest.fixture
def scaled(kernel):
    return Scaled(kernel)


def test_the_gradient_of_a_replayed_call_is_replayed_without_a_look_up(scaled, monkeypatch):
    for _ in range(4):
        scaled.check()
    assert scaled.bodies == {"forward": 2, "backward": 2}
    monkeypatch.setattr(scaled.back, "tapes", None)  # nobody looks there
    for _ in range(3):
        scaled.check()
    assert scaled.bodies == {"forward": 2, "backward": 2}


def test_a_gradient_of_other_strides_or_of_memory_that_starts_anywhere_is_looked_up(scaled):
    for _ in range(5):
        scaled.check()
    for dout, bodies in ((drawn(4, 8).mT, 4), (drawn(1, 1).expand(8, 4), 6), (drawn(33)[1:].view(8, 4), 8)):
        for _ in range(2):
            scaled.check(dout)
        assert scaled.bodies["backward"] == bodies
    scaled.check()
    assert scaled.bodies["backward"] == 8


def test_a_call_of_another_kind_has_a_gradient_of_its_own(scaled):
    for scale in (3.0, 5.0):
        for _ in range(5):
            scaled.check(scale=scale)
    for _ in range(5):
        x, y = drawn(4, 8).mT.requires_grad_(), drawn(4, 8).mT.requires_grad_()
        out, dout = scaled.op(x.contiguous(), y.contiguous(), 2.0)[0], drawn(8, 4)
        close(torch.autograd.grad(out, (x, y), dout), [2 * dout, dout])


def test_tensors_that_hooks_kept_elsewhere_may_come_back_with_other_strides(scaled):
    """As torch.autograd.graph.save_on_cpu gives them back: equal, and laid out anew."""
    for _ in range(5):
        scaled.check()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x.mT.contiguous().mT):
        scaled.check()
    assert scaled.bodies == {"forward": 2, "backward": 3}


def test_a_second_derivative_is_refused_where_a_first_is_done_again(scaled):
    for _ in range(5):
        scaled.check()
    x, y = drawn(8, 4).requires_grad_(), drawn(8, 4)
    (dx,) = torch.autograd.grad(scaled.op(x, y, 3.0)[0].square().sum(), x, create_graph=True)
    with pytest.raises(Refused, match="second derivative"):
        torch.autograd.grad(dx.sum(), x)


def test_who_listens_to_operators_hears_gradients_that_could_be_done_unasked(scaled):
    for _ in range(5):
        scaled.check()
    names = []

    class Listens(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(function.__name__)
            return function(*args, **(kwargs or {}))

    x, y, dout = drawn(8, 4).requires_grad_(), drawn(8, 4).requires_grad_(), drawn(8, 4)
    (out,) = scaled.op(x, y, 3.0)
    with Listens():
        close(torch.autograd.grad(out, (x, y), dout), [3 * dout, dout])
        assert any("backward" in name for name in names)
        scaled.check()
    assert sum(name.startswith("test_scaled") for name in names) == 3


def test_who_listens_to_launches_hears_those_that_are_done_again(scaled, monkeypatch):
    heard = []
    for _ in range(5):
        scaled.check()
    monkeypatch.setattr(
        Compiled, "__getitem__", lambda self, grid: lambda *a, **k: heard.append(grid) or self.kernel._run(*a, **k)
    )
    scaled.check()
    assert not heard
    hooks = knobs.runtime.launch_enter_hook
    hooks.add(print)
    try:
        scaled.check()
    finally:
        hooks.remove(print)
    assert heard == [(1, 1, 1)] * 3


def test_lengths_seen_once_are_not_recorded(kernel):
    """Decoding with a growing cache."""
    run = chain(kernel, [])
    for n in (16, 16, *range(32, 96, 2)):
        run(drawn(n), drawn(n), 2.0, None)
    assert len(run.tapes) == 1


def test_settings_that_compile_other_code_have_tapes_of_their_own(kernel, monkeypatch):
    bodies = []
    run = chain(kernel, bodies)
    for debug in (False, True, False, True):
        monkeypatch.setattr(knobs.runtime, "debug", debug)
        for _ in range(3):
            x, y = drawn(16), drawn(16)
            close(run(x, y, 2.0, None), expected(x, y, 2.0))
    assert len(run.tapes) == 2 and len(bodies) == 4


@pytest.mark.parametrize("off", ["switched off", "an untested version"])
def test_off_every_launch_is_triton_s_own(kernel, monkeypatch, off):
    if off == "switched off":
        monkeypatch.setattr(fast_path, "enabled", False)
    else:
        monkeypatch.setattr(fast_launcher, "untested_triton", lambda: "Launches were tested with others.")
    bodies = []
    run = chain(kernel, bodies)
    for _ in range(4):
        x, y = drawn(16), drawn(16)
        close(run(x, y, 2.0, None), expected(x, y, 2.0))
    assert len(bodies) == 4 and not len(run.tapes) and kernel.kernel.asked == 12 and not len(kernel.ready)
