"""Two results over disjoint keys merge into what one call over all of them gives."""

import pytest
import torch

from regard import Additive, Entmax, Mask, Refused, Sigmoid, attend

pytestmark = pytest.mark.usefixtures("either_path")


def keys_of_two_items():
    """The second item has no key at all."""
    return (torch.arange(9) < torch.tensor([9, 0])[:, None])[:, None, None]


@pytest.mark.parametrize("backend", ["auto", "chunked", "reference"])
@pytest.mark.parametrize("align", ["softmax", "uniform", "relu", Sigmoid(bias=-1.0)], ids=str)
def test_three_parts_merge_into_the_whole_with_every_gradient(align, backend):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, n, 4, dtype=torch.float64, requires_grad=True) for n in (5, 9, 9))
    keep = keys_of_two_items()
    whole = attend(q, k, v, align=align, over=Mask(keep=keep), backend="reference")
    parts = [
        attend(
            q,
            k[:, :, i : i + 3],
            v[:, :, i : i + 3],
            align=align,
            over=Mask(keep=keep[..., i : i + 3]),
            backend=backend,
        )
        for i in (0, 3, 6)
    ]
    joined = parts[0].merge(parts[1]).merge(parts[2])
    torch.testing.assert_close(joined.out, whole.out)
    torch.testing.assert_close(joined.map.weights(), whole.map.weights())
    torch.testing.assert_close(joined.map[0, 1].row(2), whole.map[0, 1].row(2))
    weight = torch.randn_like(whole.out)
    for mine, theirs in zip(
        torch.autograd.grad((joined.out * weight).sum(), (q, k, v), allow_unused=True),
        torch.autograd.grad((whole.out * weight).sum(), (q, k, v), allow_unused=True),
        strict=True,
    ):
        if theirs is not None and mine is not None:
            torch.testing.assert_close(mine, theirs)


def test_feature_wise_results_merge_feature_by_feature():
    torch.manual_seed(0)
    score = Additive(4, features=4).double()
    q, k, v = (torch.randn(1, 2, n, 4, dtype=torch.float64) for n in (3, 6, 6))
    whole = attend(q, k, v, score=score)
    parts = [attend(q, k[:, :, i : i + 3], v[:, :, i : i + 3], score=score) for i in (0, 3)]
    torch.testing.assert_close(parts[0].merge(parts[1]).out, whole.out)


def test_entmax_is_not_merged_because_its_threshold_needs_all_keys():
    q = torch.randn(1, 1, 3, 4)
    part = attend(q, q, q, align=Entmax(1.5))
    with pytest.raises(Refused, match="Attend over the joined keys"):
        part.merge(part)


def test_sigmoid_whose_bias_counts_keys_is_refused_with_the_way_out():
    q = torch.randn(1, 1, 3, 4)
    part = attend(q, q, q, align="sigmoid")
    with pytest.raises(Refused, match=r"Sigmoid\(bias"):
        part.merge(part)


def test_results_for_different_queries_do_not_merge():
    q, r = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 5, 4)
    with pytest.raises(ValueError, match="same queries"):
        attend(q, q, q).merge(attend(r, q, q))
