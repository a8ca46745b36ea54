"""Feature-wise kernels by Triton's interpreter, against the reference in fp64."""

import pytest
import torch

from regard import Causal, Mask, Padding, SoftCap, Window, attend, plan
from regard.backends.chunked.backend import Chunked
from regard.backends.range_masks import ranges_of
from regard.backends.triton.features.backend import TritonFeatures, kernel_refusals
from regard.core.plan import make_plan
from regard.core.scores import Additive, Dot, Gaussian, Laplace, ScaledDot
from regard.nn import DirectionalSelfAttention
from regard.nn.query.directional import one_sided

pytest.importorskip("triton")

from regard.backends.triton.features import launch

HEADS, WIDTH, KEYS = 1, 5, 21  # small: the interpreter takes a millisecond for each line of a kernel


def additive(act, **more):
    return lambda: Additive(WIDTH, WIDTH, WIDTH, heads=HEADS, activation=act, features=True, **more)


SCORES = {
    "tanh": additive("tanh"),
    "disa": lambda: additive("identity")() | SoftCap(5.0),
    "relu": additive("relu"),
    "product": lambda: Dot(features=True),
    "gaussian": lambda: Gaussian(1.5, features=True),
    "laplacian": lambda: Laplace(features=True),
}
STRUCTURES = {
    "full": (18, None),
    "causal": (KEYS, Causal("end")),
    "before": (KEYS, Window(KEYS, -1, align="end")),
    "window": (15, Causal("end") & Window(9, 3, align="end")),
    "padded": (19, Padding(torch.tensor([KEYS, 0]))),
    "keys": (5, Mask(keep=torch.rand(2, HEADS, 1, KEYS, generator=torch.Generator().manual_seed(0)) > 0.3)),
    "one query": (1, None),
}


def pair(score, over, n, m=KEYS, size=1.0, dtype=torch.float32):
    """Outputs, row statistics and gradients: the reference in fp64, and the kernels; the same numbers in both."""
    found = []
    for kind in (torch.float64, dtype):
        torch.manual_seed(1)
        made = SCORES[score]().to(dtype).to(kind)
        q, k, v = (size * torch.randn(2, HEADS, places, WIDTH) for places in (n, m, m))
        q, k, v = (x.to(dtype).to(kind).requires_grad_() for x in (q, k, v))
        if kind == torch.float64:
            out = attend(q, k, v, made, "softmax", over, backend="reference").out
            tau = Chunked().run(make_plan(q, k, v, made, "softmax", over)).state.tau
        else:
            asked = make_plan(q, k, v, made, "softmax", over)
            assert not kernel_refusals(asked)
            done = TritonFeatures().run(asked)
            out, tau = done.out, done.state.tau
        leaves = [q, k, v, *made.parameters()]
        pull = torch.randn(out.shape).to(dtype).to(kind)
        grads = torch.autograd.grad(out, leaves, pull, allow_unused=True)
        found.append([out, *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True))])
        found[-1].append(torch.nan_to_num(tau.detach().reshape(-1), posinf=0.0))
    return found


def close(true, mine, ulps=64):
    for x, y in zip(true, mine, strict=True):
        assert torch.isfinite(y).all()
        if x.numel():
            bound = ulps * torch.finfo(mine[0].dtype).eps * max(1.0, x.abs().max().item())
            assert (x - y.double()).abs().max().item() <= bound


@pytest.mark.parametrize("score", SCORES)
def test_outputs_and_gradients_are_the_reference(score):
    n, over = STRUCTURES["causal"]
    close(*pair(score, over, n))


@pytest.mark.parametrize("where", STRUCTURES)
def test_every_structure(where):
    n, over = STRUCTURES[where]
    close(*pair("disa", over, n))


def test_programs_of_many_rows_where_there_are_programs_enough(monkeypatch):
    """A GPU is kept busy by small ones else; keys of either side may be many."""
    for busy in (1, 1 << 30):
        monkeypatch.setattr(launch, "BUSY", busy)
        close(*pair("product", Causal("end"), 40, 70))


@pytest.mark.parametrize("score", ["tanh", "product"])
def test_scores_that_overflow_when_exponentiated_do_not(score):
    close(*pair(score, None, 9, size=15.0), ulps=512)  # scores of hundreds


def test_no_keys_and_no_queries():
    close(*pair("product", None, 3, m=0))
    close(*pair("tanh", None, 0, m=4))


def test_halves_are_summed_in_full():
    true, mine = pair("disa", Causal("end"), KEYS, dtype=torch.bfloat16)
    assert mine[0].dtype == torch.bfloat16
    close(true, mine, ulps=4)


def test_it_refuses_what_it_does_not_know():
    q = torch.randn(1, 1, 4, WIDTH)
    for score, align, why in (
        (ScaledDot(), "softmax", "this is dot("),
        (Dot(features=True), "sparsemax", "alignment is softmax"),
        (Dot(features=True) | SoftCap(5.0), "softmax", "caps sums"),
        (Additive(WIDTH, WIDTH, 3, features=WIDTH), "softmax", "products by feature; this is pair tanh"),
    ):
        assert any(why in reason for reason in kernel_refusals(make_plan(q, q, q, score, align)))
    assert "CUDA" in str(plan(q, q, q, Dot(features=True)))


def test_directional_self_attention_is_a_range_and_needs_no_mask():
    x = torch.randn(1, KEYS, WIDTH)
    for direction, left, right in (("forward", KEYS, -1), ("backward", -1, KEYS)):
        ranges = ranges_of(one_sided(x, direction), KEYS, KEYS)
        assert (ranges.left, ranges.right, ranges.keep) == (left, right, None)
        weights = DirectionalSelfAttention(WIDTH, direction=direction)(x).map.weights()[0, 0].sum(0) > 0
        below = torch.ones(KEYS, KEYS, dtype=torch.bool).tril(-1)
        assert torch.equal(weights, below if direction == "forward" else below.mT)
