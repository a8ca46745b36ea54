"""Launches of compiled kernels: Triton is asked again wherever it would choose another kernel, and nowhere else."""

import inspect
import itertools

import pytest
import torch

pytest.importorskip("triton")

import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.compiler.compiler import CompiledKernel
from triton.runtime.jit import JITFunction, create_function_from_signature

from regard.backends.triton.runtime import fast_launcher
from regard.backends.triton.runtime.fast_launcher import OPTIONS, Launched
from regard.backends.triton.runtime.triton_private import DirectLauncher, has_launch_hooks


def sample_kernel(X, n, step, Y, scale, SIDE: tl.constexpr, KEYS: tl.constexpr):
    """Tensors between numbers; `n` is of any length."""


class Seen:
    """Triton's part: what it would choose a kernel by, how often it was asked, and what compiled kernels were given."""

    def __init__(self):
        self.function = JITFunction(sample_kernel, do_not_specialize=("n",))
        self.params = self.function.params
        backend = make_backend(GPUTarget("cuda", 90, 32))
        self.bind = create_function_from_signature(inspect.signature(sample_kernel), self.params, backend)
        self.kinds, self.asked, self.given = set(), 0, []

    def __getitem__(self, grid):
        def compile(*arguments, **constants):
            self.asked += 1
            self.kinds.add(str(self.bind(*arguments, **constants)[1:]))
            return Compiled(self)

        return compile


class Compiled:
    def __init__(self, seen):
        self.seen = seen

    def __getitem__(self, grid):
        return lambda *arguments: self.seen.given.append((grid, arguments))


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: -1)  # what tensors of a CPU say
    monkeypatch.setattr(fast_launcher, "enabled", lambda: True)
    return Seen()


X, Y = torch.zeros(64), torch.zeros(64)


def test_a_second_call_goes_to_the_compiled_kernel_with_all_in_their_places(seen):
    kernel = Launched(seen)
    kernel[5, 6](X, 7, 3, Y, 0.5, SIDE=32, KEYS=True, num_warps=4)
    kernel[8, 9](Y, 70, 5, X, 2.5, SIDE=32, KEYS=True, num_warps=4)
    kernel[4,](X, 8, 7, Y, 1.0, SIDE=32, KEYS=True, num_warps=4)
    assert seen.asked == 2  # a scale of one is looked into, though no code follows from it
    assert seen.given == [((8, 9, 1), (Y.data_ptr(), 70, 5, X.data_ptr(), 2.5, 32, True))]


def test_constants_are_told_apart_by_their_names(seen):
    kernel = Launched(seen)
    kernel[1,](X, 7, 3, Y, 0.5, SIDE=1, KEYS=0)
    kernel[1,](X, 7, 3, Y, 0.5, KEYS=1, SIDE=0)
    kernel[1,](X, 7, 3, Y, 0.5, KEYS=1, SIDE=0)
    assert seen.asked == 2 and seen.given[0][1][-2:] == (0, 1)


def test_where_triton_would_choose_another_kernel_it_is_asked(seen):
    pointers = [X, X.double(), X.bfloat16(), X[1:], torch.zeros(0)]
    numbers = [0, 1, 2, 16, 17, 48, -16, -1, (1 << 31) - 1, 1 << 31, -(1 << 31), -(1 << 31) - 1, 0.0, 1.0, 3.5]
    options = [{"num_warps": 4}, {"num_warps": 8}, {"num_warps": 4, "maxnreg": 128}]
    measures = [(7, x, 0.5) for x in numbers] + [(x, 3, 2) for x in numbers] + [(7, 3, x) for x in numbers]
    calls = [
        ((x, n, step, y, scale), {"SIDE": side, "KEYS": False, **some})
        for x, y in itertools.product(pointers, pointers[:2])
        for n, step, scale in measures
        for side, some in ((32, options[0]), (64, options[0]), (32, options[1]), (32, options[2]))
    ]
    kernel = Launched(seen)
    for arguments, constants in calls * 2:
        asked = seen.asked
        kernel[1,](*arguments, **constants)
        if seen.asked == asked:  # then Triton chose for a call of the same kind before
            assert str(seen.bind(*arguments, **constants, **OPTIONS)[1:]) in seen.kinds
    assert len(seen.given) > len(calls) / 2


def test_a_length_alone_never_asks_triton_again(seen):
    kernel = Launched(seen)
    for n in (7, 1, 16, 1000, 4096):
        kernel[1,](X, n, 3, Y, 0.5, SIDE=32, KEYS=False)
    assert seen.asked == 1 and [given[1][1] for given in seen.given] == [1, 16, 1000, 4096]


def test_memory_that_is_not_aligned_has_a_kernel_of_its_own(seen):
    kernel = Launched(seen)
    for x in (X, X[1:], X[1:], X):
        kernel[1,](x, 7, 3, Y, 0.5, SIDE=32, KEYS=False)
    assert seen.asked == 2 and len(seen.given) == 2 and len(seen.kinds) == 2


def test_a_tensor_that_lies_elsewhere_is_left_to_triton_which_says_so(seen, monkeypatch):
    kernel, stray = Launched(seen), torch.zeros(64)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda x: -1 if x is stray else 0)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    for y in (Y, Y, stray, Y):
        kernel[1,](X, 7, 3, y, 0.5, SIDE=32, KEYS=False)
    assert seen.asked == 2 and len(seen.given) == 2


def test_a_direct_launch_is_tritons_own_without_hooks():
    """Triton's way from a compiled kernel to the launcher, which may change with its version."""
    given = []
    compiled = object.__new__(CompiledKernel)
    compiled.module = compiled.function = compiled.src = object()
    compiled.name, compiled.packed_metadata, compiled._run = "sample", ("packed",), lambda *given_: given.append(given_)
    compiled[5, 6, 1](70, 0.5, stream=9)
    DirectLauncher(compiled, (5, 6, 1)).launch(9, [70, 0.5], hooked=False)
    theirs, ours = given
    told = slice(6, 9)  # what is told of a launch, and to whom, before and after it
    assert ours[told] == (None, None, None) and len(theirs[told]) == 3
    assert ours[:6] + ours[9:] == theirs[:6] + theirs[9:]
    assert not has_launch_hooks()
    compiled.module = None  # nothing to unload
