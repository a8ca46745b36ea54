"""Linear: the kernel score by associativity equals the n x m form, in O(n)."""

import pytest
import torch
from tests.backends.chunked.test_backend import Largest

from regard import Causal, Full, Padding, Refused, Window, attend
from regard.backends import linear


def tensors(n, m, dtype=torch.float64):
    return [torch.randn(2, h, x, d, dtype=dtype).requires_grad_() for h, x, d in ((4, n, 5), (2, m, 5), (2, m, 3))]


@pytest.mark.parametrize("step", [4, 128])
@pytest.mark.parametrize(
    ("n", "m", "over"),
    [
        (9, 9, Full()),
        (7, 13, Full()),
        (1, 5, Padding(torch.tensor([5, 2]))),
        (6, 11, Padding(torch.tensor([11, 0]))),
        (9, 9, Causal()),
        (4, 4, Causal()),
        (13, 13, Causal() & Padding(torch.tensor([13, 6]))),
        (1, 1, Causal()),
        (5, 0, Full()),
        (0, 5, Full()),
    ],
    ids=str,
)
def test_the_associative_form_equals_the_definition(n, m, over, step, monkeypatch):
    monkeypatch.setattr(linear, "STEP", step)  # several blocks, a last one that is not full
    q, k, v = tensors(n, m)
    pull = torch.randn(2, 4, n, 3, dtype=torch.float64)
    found = []
    for backend in ("linear", "reference", "chunked"):
        out = attend(q, k, v, "linear_kernel", over=over, backend=backend).out
        found.append((out.detach(), *torch.autograd.grad(out, [q, k, v], pull)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found[0], found[2], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("over", [Full(), Causal()], ids=["full", "causal"])
def test_memory_grows_with_the_queries_and_not_with_their_square(over):
    largest = []
    for n in (1024, 4096):
        q, k, v = tensors(n, n, torch.float32)
        with Largest() as seen:
            attend(q, k, v, "linear_kernel", over=over, backend="linear").out.sum().backward()
        largest.append(seen.elements)
    assert largest[1] <= 4 * largest[0]  # four times the queries, four times the memory, not sixteen


def test_bf16_sums_in_fp32():
    """3,000 equal keys: a bf16 sum would stop growing at 256."""
    q, k, v = (torch.ones(1, 1, n, 4, dtype=torch.bfloat16) for n in (2, 3000, 3000))
    assert torch.equal(
        attend(q, k, v, "linear_kernel", backend="linear").out, torch.ones(1, 1, 2, 4, dtype=torch.bfloat16)
    )


@pytest.mark.parametrize(
    ("why", "options"),
    [
        ("other scores do not factorise", {"score": "dot"}),
        ("Its alignment is softmax; this is Sparsemax", {"align": "sparsemax"}),
        ("all pairs, padding and causal; this is Window", {"over": Window(2, 2)}),
        ("cannot be dropped", {"dropout": 0.1}),
    ],
)
def test_what_it_refuses_it_refuses_with_a_reason(why, options):
    q, k, v = tensors(5, 5)
    with pytest.raises(Refused, match=why):
        attend(q, k, v, **{"score": "linear_kernel", "backend": "linear", **options})


def test_causal_needs_as_many_queries_as_keys():
    q, k, v = tensors(3, 5)
    with pytest.raises(Refused, match="as many queries as keys"):
        attend(q, k, v, "linear_kernel", over=Causal(align="end"), backend="linear")


def test_auto_takes_it_and_its_map_is_that_of_the_definition():
    q, k, v = (x.detach() for x in tensors(6, 6))
    out, amap = attend(q, k, v, "linear_kernel", over=Causal())
    torch.testing.assert_close(amap.weights() @ v.repeat_interleave(2, 1), out)
