"""Kernels touch only the memory that they were given, and read nothing that nobody wrote.

The interpreter's loads and stores are watched: all open addresses of an access lie in one tensor of the launch. Fresh
memory is full of NaN and of the largest integers, which a result, a count or a list of tiles would show.
"""

import numpy as np
import pytest
import torch

from regard import ALiBi, Causal, Mask, Padding, RelativeBias, Sink, SoftCap, TopK, Window, attend
from regard.core.plan import make_plan
from regard.core.scores import Additive, GATv2, Gaussian, ScaledDot

pytest.importorskip("triton")

import triton
import triton.language as tl
from triton.runtime import interpreter

from regard.backends.triton.dense.backend import TritonDense


class Watched:
    """The interpreter's memory: an access outside the tensors of a launch is an error."""

    def __init__(self, memory):
        self.memory, self.tensors = memory, []

    def __getattr__(self, name):
        return getattr(self.memory, name)

    def look(self, places, open_, size):
        places = np.asarray(places).reshape(-1)[np.broadcast_to(open_, np.shape(places)).reshape(-1).astype(bool)]
        if places.size:
            first, last = int(places.min()), int(places.max()) + size
            assert any(start <= first and last <= end for start, end in self.tensors), "outside its tensors"

    def load(self, places, open_, other, dtype):
        self.look(places, open_, np.dtype(dtype).itemsize)
        return self.memory.load(places, open_, other, dtype)

    def store(self, places, values, open_):
        self.look(places, open_, values.dtype.itemsize)
        return self.memory.store(places, values, open_)


def tensors_in(given):
    """Those of tuples too."""
    for x in given:
        if isinstance(x, torch.Tensor):
            yield x
        elif isinstance(x, tuple):
            yield from tensors_in(x)


@pytest.fixture
def watched(monkeypatch):
    memory, launched = Watched(interpreter._interpreter), interpreter.GridExecutor._init_args_hst

    def launch(self, given, named):
        here = launched(self, given, named)
        tensors = list(tensors_in((*here[0], *here[1].values())))
        memory.tensors = [(x.data_ptr(), x.data_ptr() + x.numel() * x.element_size()) for x in tensors]
        return here

    monkeypatch.setattr(interpreter, "_interpreter", memory)
    monkeypatch.setattr(interpreter.GridExecutor, "_init_args_hst", launch)
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@triton.jit
def copy_kernel(X, Y, n, SOME: tl.constexpr):
    at = tl.arange(0, SOME)
    tl.store(Y + at, tl.load(X + at, mask=at < n), mask=at < n)


def test_an_access_beyond_a_tensor_is_seen(watched):
    x, y = torch.randn(7), torch.empty(7)
    assert y.isnan().all()
    copy_kernel[(1,)](x, y, 7, SOME=8)
    assert torch.equal(x, y)
    with pytest.raises(Exception, match="outside its tensors"):
        copy_kernel[(1,)](x, y, 8, SOME=8)


KEPT = torch.arange(70) % 3 > 0
CASES = {
    "dot, entmax 1.5, causal": (ScaledDot, "entmax15", Causal("end"), 66, 130, 1),
    "gaussian, sparsemax, window, shared keys": (
        lambda: Gaussian(2.0),
        "sparsemax",
        Window(40, 3, align="end"),
        5,
        70,
        2,
    ),
    "tanh, softmax, padding": (lambda: Additive(16, 16, 9), "softmax", Padding(torch.tensor([70, 3])), 9, 70, 1),
    "leaky, sigmoid, keys": (lambda: GATv2(16, heads=1), "sigmoid", Mask(keep=KEPT[None, None, None]), 3, 70, 1),
    "dot modified, softmax, causal": (
        lambda: (
            ScaledDot() | RelativeBias(1, 3, align="end") | SoftCap(2.0) | ALiBi(1, learned=True, align="end") | Sink(1)
        ),
        "softmax",
        Causal("end"),
        66,
        70,
        1,
    ),
    "dot modified, entmax 1.5, padding": (
        lambda: ScaledDot() | RelativeBias(1, 80, align="end") | Sink(1),
        "entmax15",
        Padding(torch.tensor([70, 3])),
        5,
        70,
        1,
    ),
    "dot, top-3, causal": (ScaledDot, TopK(3), Causal("end"), 5, 70, 1),
}


@pytest.mark.parametrize("case", CASES)
def test_kernels_touch_only_the_memory_they_were_given(case, watched):
    make, align, over, n, m, heads = CASES[case]
    found = []
    for kind in (torch.float64, torch.float32):
        torch.manual_seed(1)
        made = make().to(kind)
        q, k, v = (
            torch.randn(2, h, *size).to(kind).requires_grad_() for h, *size in ((heads, n, 16), (1, m, 16), (1, m, 12))
        )
        if kind == torch.float64:
            out = attend(q, k, v, made, align, over, backend="reference").out
        else:
            out = TritonDense().run(make_plan(q, k, v, made, align, over)).out
        leaves = [q, k, v, *made.parameters()]
        grads = torch.autograd.grad(out, leaves, torch.ones_like(out), allow_unused=True)
        found.append([out, *(x for x in grads if x is not None)])
    for true, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine.double(), true, atol=2e-5, rtol=2e-5)


def guarded(*shape: int) -> torch.Tensor:
    """Numbers between two pages of NaN, as a view of batch, heads and places whose memory has the places first."""
    size, guard = 2 * shape[0] * shape[1] * shape[2], 4096
    memory = torch.full((size + 2 * guard,), float("nan"))
    memory[guard:-guard] = torch.randn(size)
    return memory[guard:-guard].view(shape[1], 2, shape[0], shape[2]).permute(1, 2, 0, 3)


@pytest.mark.covered
@pytest.mark.parametrize("align", ["softmax", "sigmoid", "sparsemax", "entmax15"])
@pytest.mark.parametrize(("d", "d_v"), [(64, 16), (128, 32), (64, 8), (40, 24), (16, 64), (8, 128), (33, 33)])
def test_values_may_be_narrower_and_wider_than_keys(d, d_v, align, watched):
    torch.manual_seed(1)
    given = [guarded(1, 33, d), guarded(1, 70, d), guarded(1, 70, d_v)]
    pull = torch.randn(2, 1, 33, d_v)
    found = []
    for kind in (torch.float64, torch.float32):
        q, k, v = (x.to(kind).requires_grad_() if kind == torch.float64 else x.requires_grad_() for x in given)
        made = make_plan(q, k, v, "scaled_dot", align)
        out = attend(q, k, v, align=align, backend="reference").out if kind == torch.float64 else None
        out = TritonDense().run(made).out if out is None else out
        found.append([out, *torch.autograd.grad(out, [q, k, v], pull.to(kind))])
    for true, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine.double(), true, atol=2e-5, rtol=2e-5)
