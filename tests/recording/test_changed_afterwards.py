"""What a record says does not change with the model's tensors, and a record keeps none of them."""

import gc
from weakref import ref

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard import record


def by_numpy(x: Tensor) -> None:
    x.detach().numpy()[...] = 7.0


CHANGES = {
    "in place": lambda x: x.mul_(3),
    ".data": lambda x: x.data.mul_(3),
    ".data is another": lambda x: setattr(x, "data", torch.zeros_like(x)),
    "NumPy alias": by_numpy,
    "a view of it": lambda x: x.view(-1)[:5].fill_(9.0),
}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("which", ["q", "k", "v", "bias"])
@pytest.mark.parametrize("keep", ["qk", "weights"])
def test_maps_are_of_the_tensors_as_they_were(which, change, mode, keep):
    with mode():
        given = {name: torch.randn(1, 2, 4, 8) for name in "qkv"} | {"bias": torch.randn(4, 4)}
        truth = (given["q"] @ given["k"].mT * 8**-0.5 + given["bias"]).softmax(-1)
        with record(keep=keep) as rec:
            F.scaled_dot_product_attention(given["q"], given["k"], given["v"], attn_mask=given["bias"])
        CHANGES[change](given[which])
    assert_close(rec.maps["function"].weights(), truth, atol=1e-6, rtol=0)


@pytest.mark.parametrize("change", [".data", "NumPy alias"])
def test_a_mask_that_changes_between_two_calls_is_read_twice(change):
    q, bias = torch.randn(1, 2, 4, 8), torch.randn(1, 1, 4, 4)
    with torch.no_grad(), record() as rec:
        F.scaled_dot_product_attention(q, q, q, attn_mask=bias)
        before = bias.clone()
        CHANGES[change](bias)
        F.scaled_dot_product_attention(q, q, q, attn_mask=bias)
    for amap, mask in zip(rec.maps.values(), (before, bias), strict=True):
        assert_close(amap.weights(), (q @ q.mT * 8**-0.5 + mask).softmax(-1), atol=1e-6, rtol=0)


def test_layers_that_share_a_bias_share_its_copy():
    q, bias = torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 4)
    with torch.no_grad(), record() as rec:
        for _ in range(3):
            F.scaled_dot_product_attention(q, q, q, attn_mask=bias)
    places = {amap.plan.score.pointwise()[0].bias.data_ptr() for amap in rec.maps.values()}
    assert len(places) == 1 and bias.data_ptr() not in places


class Both(nn.Module):
    """Attention by a kernel, and written out with dropout."""

    def forward(self, x: Tensor) -> Tensor:
        w = F.dropout((x @ x.mT).softmax(-1), 0.5, True)
        self.made = [ref(w)]
        y = w @ F.scaled_dot_product_attention(x, x, x)
        self.made.append(ref(y))
        return y.sum()


@pytest.mark.parametrize("grad", [False, True])
def test_a_record_keeps_no_tensor_of_the_model_alive(grad):
    x, model = torch.randn(1, 2, 5, 4, requires_grad=grad), Both()
    with record(model) as rec:
        out = model(x)
        if grad:
            out.backward()
    inputs = ref(x)
    del x, out
    gc.collect()
    assert [made() for made in model.made] == [None, None] and inputs() is None
    assert len(rec.maps) == 2
