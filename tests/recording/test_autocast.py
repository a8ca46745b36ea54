"""What a map or a record says does not depend on the autocast of whoever reads or records it."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import flex_attention
from torch.testing import assert_close

from regard import Edges, General, ScaledDot, attend, derived, intervene, record
from regard.interventions import Freeze


def low(enabled: bool = True):
    return torch.autocast("cpu", torch.bfloat16, enabled=enabled)


class Attends(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.kernel = kernel

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.kernel(q, k, v)


def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


KERNELS = {
    "sdpa": F.scaled_dot_product_attention,
    "aten": torch.ops.aten.scaled_dot_product_attention,
    "flex": flex_attention,
    "attend": lambda q, k, v: attend(q, k, v).out,
}


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(3, 2, 4, 24, 16, generator=torch.Generator().manual_seed(seed)).unbind()


def truth(q: Tensor, k: Tensor, dtype: torch.dtype) -> Tensor:
    """The weights of the kernel, whose queries and keys have this type, in fp64."""
    q, k = (x.to(dtype).double() for x in (q, k))
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)


def only(rec):
    return next(iter((rec.maps or rec.stats).values()))


def statistics(amap):
    return amap.weights(), amap.row(0), amap.entropy(), amap.mass(), amap.strongest(2).weight, amap.tau


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_map_reads_the_same_inside_and_afterwards(kernel):
    q, k, v = inputs()
    exact = truth(q, k, torch.float32)
    for read_first in (True, False):
        with record() as rec:
            Attends(KERNELS[kernel])(q, k, v)
        with low(read_first):
            first = statistics(only(rec))
        with low():
            second = statistics(only(rec))
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
        assert_close(first[0].double(), exact, atol=1e-6, rtol=0)


@pytest.mark.parametrize("keep", ["qk", "weights", "topk", "stats"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_record_made_under_autocast_has_the_weights_that_ran(kernel, keep):
    q, k, v = inputs()
    model = Attends(KERNELS[kernel])
    with low(), record(model, keep=keep, k=24) as rec:
        out = model(q, k, v)
    assert out.dtype == torch.bfloat16
    exact = truth(q, k, torch.bfloat16)
    if keep == "stats":
        assert_close(only(rec).mass.double(), exact.sum(-2), atol=1e-5, rtol=0)
        assert_close(only(rec).entropy.double(), -torch.xlogy(exact, exact).sum(-1), atol=1e-5, rtol=0)
    else:
        assert_close(only(rec).weights().double(), exact, atol=1e-6, rtol=0)


def test_one_that_writes_its_weights_out_has_those_it_wrote():
    q, k, v = inputs()
    with low(), record(keep="weights") as rec:
        Attends(written_out)(q, k, v)
    with low():
        expected = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
    assert torch.equal(only(rec).weights(), expected)


@pytest.mark.parametrize("kernel", [*KERNELS, "written out"])
@pytest.mark.parametrize("under", [False, True])
def test_freezing_the_own_record_changes_nothing(kernel, under):
    q, k, v = inputs()
    model = Attends(KERNELS.get(kernel, written_out))
    with low(under), record(model) as rec:
        out = model(q, k, v)
    with low(under), intervene(model, Freeze(rec)):
        again = model(q, k, v)
    assert again.dtype == out.dtype
    room = 4 * torch.finfo(out.dtype).eps * v.abs().sum(-2, keepdim=True)
    assert bool(((again - out).abs() <= room).all())


def test_kernels_that_autocast_leaves_alone_are_read_in_their_own_type():
    q, k, v = inputs()
    with low(), record() as rec:
        out = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]
    assert out.dtype == torch.float32
    assert_close(only(rec).weights().double(), truth(q, k, torch.float32), atol=1e-6, rtol=0)


def test_maps_over_edges_and_of_projected_queries():
    q, k, v = inputs()
    index = torch.randint(24, (2, 60), generator=torch.Generator().manual_seed(1))
    for options in (
        {"over": Edges(index)},
        {"score": General(16, 16, 4)},
        {"over": Edges(index), "score": ScaledDot()},
    ):
        amap = attend(q, k, v, **options).map
        with low():
            inside = amap.edges() if "over" in options else amap.weights()
        fresh = attend(q, k, v, **options).map
        assert torch.equal(inside, fresh.edges() if "over" in options else fresh.weights())


def test_maps_made_of_maps():
    q, k, v = inputs()
    model = Attends(F.scaled_dot_product_attention)
    parts = [leaf.clone().requires_grad_() for leaf in (q, k, v)]
    with record(model, grad=True, values=True) as rec:
        out = model(*parts)
    out.sum().backward()

    def all_of_them():
        (gradient,) = rec.gradients.values()
        projection = {"*": torch.eye(64)}
        (norms,) = derived.norms(rec, projection=projection).values()
        return [gradient.weights(), derived.rollout(rec).weights(), derived.relevance(rec).weights(), norms.weights()]

    with low():
        inside = all_of_them()
    assert all(torch.equal(a, b) for a, b in zip(inside, all_of_them(), strict=True))


def test_the_differentiable_weights_are_as_exact_as_the_others():
    q, k, v = (x.bfloat16().requires_grad_() for x in inputs())
    amap = attend(q, k, v).map
    with low():
        weights = amap.weights(grad=True)
    assert_close(weights.detach(), amap.weights(), atol=1e-6, rtol=0)
    weights.square().sum().backward()
    assert q.grad.dtype == torch.bfloat16 and bool(q.grad.any())
