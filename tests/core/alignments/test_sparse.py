"""Sparsemax and entmax (taxonomy 2.2 E, F)."""

import pytest
import torch
from tests.core.mechanisms import built, inputs
from torch import Tensor
from torch.testing import assert_close

from regard import Edges, Entmax, Mask, Softmax, Sparsemax, attend
from regard.core.alignments.sparse import peak_and_threshold, refined_threshold, threshold


def rows(count: int = 50, size: int = 7, scale: float = 2.0) -> Tensor:
    return scale * torch.randn(count, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def projected(z: list[float]) -> list[float]:
    """Martins & Astudillo's algorithm: sort, find the support, subtract the threshold."""
    ordered = sorted(z, reverse=True)
    k = max(k for k in range(1, len(z) + 1) if 1 + k * ordered[k - 1] > sum(ordered[:k]))
    tau = (sum(ordered[:k]) - 1) / k
    return [max(x - tau, 0.0) for x in z]


def bisected(z: list[float], alpha: float) -> list[float]:
    """Entmax by halving the bracket of its threshold."""
    z = [(alpha - 1) * x for x in z]
    low, high = max(z) - 1, max(z) - len(z) ** (1 - alpha)
    for _ in range(200):
        tau = (low + high) / 2
        if sum(max(x - tau, 0.0) ** (1 / (alpha - 1)) for x in z) >= 1:
            low = tau
        else:
            high = tau
    return [max(x - low, 0.0) ** (1 / (alpha - 1)) for x in z]


def test_sparsemax_is_the_projection_onto_the_simplex_by_sorting() -> None:
    s = rows()
    assert_close(Sparsemax()(s), torch.tensor([projected(z) for z in s.tolist()], dtype=torch.float64))


def test_sparsemax_is_nearer_than_any_other_distribution() -> None:
    s = rows()
    w = Sparsemax()(s)
    others = torch.distributions.Dirichlet(torch.ones(7).double()).sample((1000, 1))
    assert ((w - s).square().sum(-1) <= (others - s).square().sum(-1) + 1e-12).all()


def test_sparsemax_leaves_distributions_as_they_are() -> None:
    p = torch.softmax(rows(), -1)
    assert_close(Sparsemax()(p), p)


def test_sparsemax_of_two_scores_is_a_clipped_line() -> None:
    s = rows(size=2)
    assert_close(Sparsemax()(s)[:, 0], ((1 + s[:, 0] - s[:, 1]) / 2).clamp(0, 1))


@pytest.mark.parametrize("alpha", [1.1, 1.3, 1.5, 1.7, 2.0, 2.5, 4.0])
def test_entmax_finds_the_threshold_at_which_a_row_sums_to_one(alpha: float) -> None:
    s = rows()
    assert_close(
        Entmax(alpha)(s),
        torch.tensor([bisected(z, alpha) for z in s.tolist()], dtype=torch.float64),
        atol=1e-9,
        rtol=1e-7,
    )


def test_entmax_is_softmax_as_alpha_falls_to_one_and_sparsemax_at_two() -> None:
    s = rows()
    assert_close(Entmax(1 + 1e-4)(s), Softmax()(s), atol=1e-3, rtol=0)
    assert_close(Entmax(2.0)(s), Sparsemax()(s))


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0])
def test_a_score_one_over_alpha_minus_one_under_the_largest_gets_exactly_zero(alpha: float) -> None:
    s = rows(scale=3.0)
    far = s <= s.amax(-1, keepdim=True) - 1 / (alpha - 1)
    assert far.any()
    assert (Entmax(alpha)(s)[far] == 0).all()


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0])
def test_the_jacobian_is_diagonal_less_an_outer_product_over_the_support(alpha: float) -> None:
    s = rows(count=5)
    w = Entmax(alpha)(s)
    for z, p in zip(s, w, strict=True):
        found = torch.autograd.functional.jacobian(lambda x: Entmax(alpha)(x[None])[0], z)
        g = torch.where(p > 0, p ** (2 - alpha), 0.0)
        assert_close(found, torch.diag(g) - torch.outer(g, g) / g.sum())


@pytest.mark.parametrize("align", ["sparsemax", "entmax15", "entmax13", "entmax_learned"])
def test_second_derivatives_of_entmax_are_right(align: str) -> None:
    made = built(align)
    s = rows(count=2, size=4, scale=0.5)[:, None].expand(2, 2, 4).contiguous().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: made(x[:, None].transpose(0, 1))[:, 0], s)


def test_the_gradient_of_a_learned_alpha_is_that_of_finite_differences() -> None:
    made = built("entmax_learned")
    q, k, v = (x.detach() for x in inputs())
    assert torch.autograd.gradcheck(lambda _: attend(q, k, v, align=made).out, (made.raw,))


def test_masked_scores_do_not_move_the_threshold() -> None:
    q, k, v = inputs()
    keep = torch.rand(3, 5, generator=torch.Generator().manual_seed(3)) > 0.4
    for alpha in (1.3, 1.5, 2.0, 3.0):
        weights = attend(q, 5 * k, v, align=Entmax(alpha), over=Mask(keep=keep)).map.weights()
        s = 5 * q @ k.mT / 2
        for i in range(3):
            assert_close(weights[:, :, i, keep[i]], Entmax(alpha)(s[:, :, i, keep[i]]).detach())


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_the_threshold_holds_for_many_equal_scores_and_for_far_offsets(alpha: float) -> None:
    equal = torch.zeros(1, 100_000)
    assert_close(Entmax(alpha)(equal).sum().item(), 1.0, rtol=1e-4, atol=0)
    s = rows(count=8).float()
    spacing = 1000 * torch.finfo(torch.float32).eps  # of tau, one fp32 number a row
    assert_close(Entmax(alpha)(s + 1000), Entmax(alpha)((s + 1000) - 1000), atol=spacing, rtol=0)
    assert threshold(torch.full((1, 3), float("-inf")), alpha).item() == float("inf")


@pytest.mark.parametrize("alpha", [1.5, 2.0, 1.3])
def test_the_entmax_package_gives_the_same_weights(alpha: float) -> None:
    peer = pytest.importorskip("entmax")
    s = rows()
    assert_close(Entmax(alpha)(s), peer.entmax_bisect(s, alpha, n_iter=100), atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("backend", ["reference", "chunked", "auto"])
@pytest.mark.parametrize("align", [Entmax(), Sparsemax(), Entmax(3.0), Entmax(1.3), Entmax(learned=True, heads=2)])
def test_rows_of_large_scores_sum_to_one(align: Entmax, backend: str) -> None:
    """tau of scores around a million is rounded to a sixteenth in fp32; the weights are not."""
    q, k = torch.full((1, 2, 5, 1), 1000.0), 1000.0 + torch.arange(7.0).mul(2**-10).expand(1, 2, 7)[..., None]
    v = torch.ones(1, 2, 7, 3)
    out, amap = attend(q, k, v, score="dot", align=align, backend=backend)
    assert_close(out, torch.ones_like(out))
    assert_close(amap.weights().sum(-1), torch.ones(1, 2, 5))


def test_rows_of_large_scores_sum_to_one_on_edges() -> None:
    pytest.importorskip("numba")
    q, k, v = torch.full((1, 2, 3, 1), 1000.0), torch.arange(4.0) * 2**-10, torch.ones(1, 2, 4, 3)
    k = 1000.0 + k.expand(1, 2, 4)[..., None]
    over = Edges(torch.cartesian_prod(torch.arange(4), torch.arange(3)).T)
    for align in (Entmax(), Sparsemax()):
        out = attend(q, k, v, score="dot", align=align, over=over, backend="edges-cpu").out
        assert_close(out, torch.ones_like(out))


@pytest.mark.parametrize("alpha", [1.1, 1.3, 1.5, 2.0, torch.tensor(1.7)], ids=str)
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e8])
def test_a_rounded_threshold_is_refined_without_looking_at_its_numbers(alpha: float | Tensor, size: float) -> None:
    """What a GPU does in a backward, where to ask whether tau is rounded would make the host wait."""
    s = size + 8 * torch.randint(-2, 1, (4, 300)).float()  # exact in fp32 up to 1e8
    s[:, ::7] = float("-inf")
    s[3] = float("-inf")
    exact, rest = peak_and_threshold(s.double(), alpha)
    tau = (exact + rest).squeeze(-1).float()
    peak, refined = refined_threshold(s, tau, alpha)
    assert torch.equal(peak.double(), exact) and refined[3] == float("inf")
    assert_close(refined.double(), rest, rtol=1e-6, atol=2e-6)
