"""attend(): what goes in, what comes out."""

import copy

import pytest
import torch
from tests.core.mechanisms import built, inputs
from torch.testing import assert_close

import regard
from regard import Attended, Causal, Entmax, Padding, TopK, attend

pytestmark = pytest.mark.usefixtures("either_path")


def test_a_result_unpacks_into_output_and_map() -> None:
    q, k, v = inputs()
    made = attend(q, k, v)
    out, amap = made
    assert out is made.out
    assert amap is made.map
    assert isinstance(made, Attended)
    assert made.sample is None
    assert made.state is None


def test_an_attribute_that_the_map_has_is_answered_by_where_it_is() -> None:
    made = attend(*inputs())
    with pytest.raises(AttributeError, match=r"write attend\(\.\.\.\)\.map\.weights\(\)"):
        made.weights  # noqa: B018
    with pytest.raises(AttributeError, match=r"write attend\(\.\.\.\)\.map\.shape\."):
        made.shape  # noqa: B018
    with pytest.raises(AttributeError, match="it has out, map, sample and state"):
        made.logits  # noqa: B018
    assert not hasattr(made, "weights") and copy.copy(made).out is made.out


def test_the_output_is_the_weights_times_the_values() -> None:
    q, k, v = inputs()
    out, amap = attend(q, k, v, "additive", "entmax15", Causal("end"))
    assert_close(out, amap.weights() @ v)


@pytest.mark.parametrize("score", ["scaled_dot", "additive", "own", "dot_features"])
@pytest.mark.parametrize("align", ["softmax", "hard", "reinforced"])
def test_one_head_without_a_batch_and_many_leading_axes_give_the_numbers_of_a_batch(score: str, align: str) -> None:
    q, k, v = (x.detach() for x in inputs(batch=6, heads=2))
    made = built(score), built(align)
    whole = attend(q, k, v, *made)
    five = attend(*(x.unflatten(0, (2, 3)) for x in (q, k, v)), *made)
    assert_close(five.out, whole.out.unflatten(0, (2, 3)))
    assert_close(five.map.weights(), whole.map.weights().unflatten(0, (2, 3)))
    three = attend(q[4], k[4], v[4], *made)
    assert_close(three.out, whole.out[4])
    if whole.sample is not None:
        assert_close(five.sample.log_prob, whole.sample.log_prob.unflatten(0, (2, 3)))
        assert_close(three.sample.index, whole.sample.index[4])


def test_two_axes_are_one_head() -> None:
    q, k, v = (x.detach() for x in inputs())
    for align in ("softmax", "hard", "sparsemax"):
        two = attend(q[1, 1], k[1, 1], v[1, 1], "additive", align)
        assert two.out.shape == (3, 4)
        assert_close(two.out, attend(q, k, v, "additive", align).out[1, 1])


@pytest.mark.parametrize("backend", ["reference", "chunked", "sdpa"])
def test_grouped_queries_share_keys_as_if_these_were_repeated(backend: str) -> None:
    q = inputs(heads=6)[0]
    _, k, v = inputs()
    grouped = attend(q, k, v, backend=backend)
    repeated = attend(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1), backend=backend)
    assert_close(grouped.out, repeated.out)
    assert_close(grouped.map.weights(), repeated.map.weights())
    for a, b in zip(*(torch.autograd.grad(x.out.square().sum(), [q, k, v]) for x in (grouped, repeated)), strict=True):
        assert_close(a, b)


def test_values_may_have_a_width_of_their_own() -> None:
    q, k, _ = inputs()
    for width in (0, 1, 9):
        v = torch.randn(2, 2, 5, width, dtype=torch.float64)
        for backend in ("reference", "chunked", "sdpa"):
            assert_close(attend(q, k, v, backend=backend).out, torch.softmax(q @ k.mT / 2, -1) @ v)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_output_has_the_type_of_the_input(dtype: torch.dtype) -> None:
    q, k, v = (x.detach().to(dtype) for x in inputs())
    for backend in ("auto", "reference", "chunked"):
        assert attend(q, k, v, "additive", "sparsemax", backend=backend).out.dtype == dtype
        assert attend(q, k, v, backend=backend).out.dtype == dtype


def test_attend_knows_no_training_mode() -> None:
    q, k, v = inputs()
    score, align = built("additive"), built("gumbel")
    train = attend(q, k, v, score.train(), align.train()).out
    assert_close(attend(q, k, v, score.eval(), align.eval()).out, train)


@pytest.mark.parametrize("align", ["softmax", "sparsemax", "hard", "gumbel", "reinforced", "monotonic"])
def test_without_sampling_the_result_is_the_same_every_time(align: str) -> None:
    q, k, v = inputs()
    made = built(align)
    assert (attend(q, k, v, align=made).out == attend(q, k, v, align=made).out).all()


def test_inputs_are_left_as_they_are() -> None:
    q, k, v = (x.detach() for x in inputs())
    k[1, :, 3:], v[1, :, 3:] = float("nan"), float("nan")
    before = [x.clone() for x in (q, k, v)]
    for score, align in (("scaled_dot", "softmax"), ("additive", "entmax15"), ("query_free", "relu")):
        for backend in ("reference", "chunked"):
            attend(q, k, v, score, align, Padding(torch.tensor([5, 3])), backend=backend).map.weights()
    for a, b in zip(before, (q, k, v), strict=True):
        assert_close(a, b, equal_nan=True)


def test_meta_tensors_give_the_shape_without_a_computation() -> None:
    q, k, v = (torch.empty(s, device="meta") for s in ((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6)))
    out = attend(q, k, v).out
    assert out.device.type == "meta"
    assert out.shape == (2, 4, 3, 6)


def test_every_public_name_is_there() -> None:
    for name in regard.__all__:
        assert getattr(regard, name) is not None


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
@pytest.mark.parametrize(
    "align", ["softmax", "sigmoid", "relu", "sparsemax", "entmax15", Entmax(1.3), Entmax(2.5), TopK(3)], ids=str
)
def test_nan_keys_propagate_to_their_rows_alone(align, score, backend: str) -> None:
    """Nobody looks for the cause of a number that seems right."""
    q, k, v = (torch.randn(1, 2, 9, 4) for _ in range(3))
    k[0, 1, 5, 2] = float("nan")
    out = attend(q, k, v, score, align, Causal(), backend=backend).out[0]
    assert out[1, 5:].isnan().all()
    assert out[0].isfinite().all() and out[1, :5].isfinite().all()
