"""The masking contract (taxonomy 0.2): masked pairs weigh nothing, padding changes nothing, empty rows are zero."""

import pytest
import torch
from tests.core.mechanisms import ORDERED, STEPWISE, built, inputs, product
from torch import Tensor
from torch.testing import assert_close

from regard import Causal, Edges, Mask, Padding, Segments, Structure, attend

LENGTHS = [5, 3, 1]
SCORES_ONCE = [*product(alignments=["softmax"]), *product(scores=["scaled_dot", "additive_features"])]


def gradients(out: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    """Of a loss that weighs every output differently."""
    weigh = torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).view_as(out)
    found = torch.autograd.grad((out * weigh).sum(), tensors, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(tensors, found, strict=True)]


@pytest.mark.covered(4)
@pytest.mark.parametrize(("score", "align"), product())
def test_masked_pairs_weigh_exactly_nothing_and_a_masked_key_gets_exactly_no_gradient(score: str, align: str) -> None:
    q, k, v = inputs()
    keep = torch.ones(3, 5, dtype=torch.bool)
    keep[:, 3] = False  # nobody sees key 3
    keep[1, 0] = False
    out, amap = attend(q, k, v, built(score), built(align), Mask(keep=keep))
    assert (amap.weights()[..., ~keep] == 0).all()
    _, dk, dv = gradients(out, [q, k, v])
    assert (dk[:, :, 3] == 0).all()
    assert (dv[:, :, 3] == 0).all()


def assert_padding_changes_nothing(score: str, align: str, masked_by: str) -> None:
    """A batch of three: no padding, finite garbage, NaN; against each item alone."""
    q, k, v = inputs(batch=3)
    lengths, made = torch.tensor(LENGTHS), (built(score), built(align))
    valid = torch.arange(5) < lengths[:, None]
    padding, garbage = ~valid[:, None, :, None], torch.tensor([0.0, 1e3, float("nan")], dtype=torch.float64)
    k, v = (torch.where(padding, garbage[:, None, None, None], x.detach()).requires_grad_() for x in (k, v))
    over: Structure = Padding(lengths) if masked_by == "lengths" else Mask(keep=valid[:, None, None, :])
    out, amap = attend(q, k, v, *made, over)
    weights = amap.weights()
    for item, length in enumerate(LENGTHS):
        here = slice(item, item + 1)
        alone = attend(q[here], k[here, :, :length], v[here, :, :length], *made)
        assert_close(out[here], alone.out)
        assert_close(weights[here, ..., :length], alone.map.weights())
        assert (weights[here, ..., length:] == 0).all()
    found = gradients(out, [q, k, v])
    assert all(x.isfinite().all() for x in found)
    assert (found[1].masked_select(padding) == 0).all()
    assert (found[2].masked_select(padding) == 0).all()


@pytest.mark.covered(3)
@pytest.mark.parametrize(("score", "align"), product())
def test_a_padded_batch_equals_its_items_whatever_stands_in_the_padding(score: str, align: str) -> None:
    assert_padding_changes_nothing(score, align, "lengths")


@pytest.mark.parametrize(("score", "align"), [(s, a) for s, a in SCORES_ONCE if a != "local_predictive"])
def test_a_key_mask_is_padding_too(score: str, align: str) -> None:  # but for a window that needs the length
    assert_padding_changes_nothing(score, align, "key mask")


@pytest.mark.parametrize("shared", [False, True], ids=["a head for each", "grouped"])
def test_keys_closed_to_some_heads_only_stay_open_to_the_others(shared: bool) -> None:
    q, k, v = inputs()
    k, v = (k[:, :1], v[:, :1]) if shared else (k, v)
    keep = torch.ones(1, 2, 1, 5, dtype=torch.bool)
    keep[0, 1, 0, 4] = False
    weights = attend(q, k, v, over=Mask(keep=keep)).map.weights()
    assert (weights[:, 0, :, 4] > 0).all()
    assert (weights[:, 1, :, 4] == 0).all()


def closed_row() -> Structure:
    keep = torch.ones(3, 5, dtype=torch.bool)
    keep[1] = False
    return Mask(keep=keep)


EMPTY: dict[str, tuple[Structure, list[int]]] = {
    "a row that is all masked": (closed_row(), [1]),
    "an item of length 0": (Padding(torch.tensor([0, 0])), [0, 1, 2]),
    "a query before the first key": (Causal(align="end") & Mask(keep=torch.arange(5) > 3), [0, 1]),
    "a segment without keys": (Segments(torch.tensor([0, 7, 0]), key_ids=torch.tensor([0, 0, 0, 0, 0])), [1]),
    "an isolated node": (Edges(torch.tensor([[0, 1, 4], [0, 0, 2]])), [1]),
}


@pytest.mark.parametrize(
    ("score", "align", "where"),
    [(s, a, w) for w in EMPTY for s, a in SCORES_ONCE if w != "an isolated node" or not {s, a} & {*STEPWISE, *ORDERED}],
)
def test_an_empty_row_is_zero_with_zero_gradient_and_infinite_tau(score: str, align: str, where: str) -> None:
    over, rows = EMPTY[where]
    q, k, v = inputs()
    out, amap = attend(q, k, v, built(score), built(align), over)
    assert (out[:, :, rows] == 0).all()
    assert (amap.weights()[..., rows, :] == 0).all()
    found = gradients(out, [q, k, v])
    assert all(x.isfinite().all() for x in found)
    if score != "location_aware":  # there the next step sees that nothing was seen, which depends on no query
        assert (found[0][:, :, rows] == 0).all()
    if score not in STEPWISE and align not in STEPWISE:
        assert (amap.tau[..., rows] == float("inf")).all()  # type: ignore[attr-defined]


@pytest.mark.covered(4)
@pytest.mark.parametrize(("score", "align"), product())
def test_without_a_key_the_output_is_zero(score: str, align: str) -> None:
    q, k, v = inputs(m=0)
    out, amap = attend(q, k, v, built(score), built(align))
    assert_close(out, torch.zeros_like(out))
    assert amap.weights().numel() == 0
    assert (gradients(out, [q])[0] == 0).all()


@pytest.mark.parametrize(("score", "align"), SCORES_ONCE)
def test_without_a_query_nothing_comes_out_and_nothing_flows_back(score: str, align: str) -> None:
    q, k, v = inputs(n=0)
    out, amap = attend(q, k, v, built(score), built(align))
    assert out.shape == (2, 2, 0, 4)
    assert amap.weights().shape[-2:] == (0, 5)
    assert all((x == 0).all() for x in gradients(out, [k, v]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("align", ["softmax", "sparsemax", "entmax15", "topk", "sigmoid", "relu", "local_predictive"])
def test_empty_rows_are_zero_in_every_precision(dtype: torch.dtype, align: str) -> None:
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in inputs())
    for backend in ("auto", "reference"):
        out = attend(q, k, v, align=built(align), over=Padding(torch.tensor([5, 0])), backend=backend).out
        assert (out[1] == 0).all()
        assert all(x.isfinite().all() for x in gradients(out, [q, k, v]))
