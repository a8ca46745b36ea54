"""A step that is recorded is the one that is not: outputs, gradients and what the model returns, bit for bit."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard import record

MASK = torch.zeros(6, 6, dtype=torch.bool)
MASK[:, 1] = True
TABLE = torch.linspace(0.5, 1.5, 36).reshape(6, 6)


def imul(w):
    w *= 0.5
    return w


def iadd(w):
    w += 0.01
    return w


def idiv(w):
    w /= 2
    return w


def item(w):
    w[..., 2] = 0
    return w


def rows(w):
    w[..., :2, :] = TABLE[:2]
    return w


def seen(w):
    w.view(-1)[3] = 7.0  # through a view that is made and let go
    return w


def into(w):
    if w.requires_grad or torch.is_grad_enabled():
        return torch.mul(w, 3)
    return torch.mul(w, 3, out=torch.empty_like(w))


def onto_itself(w):
    return w * 3 if w.requires_grad or torch.is_grad_enabled() else torch.mul(w, 3, out=w)


CHANGES = {
    "*=": imul,
    "+=": iadd,
    "/=": idiv,
    "[] =": item,
    "[:2] =": rows,
    "out=": into,
    "out= itself": onto_itself,
    "mul_": lambda w: w.mul_(TABLE),
    "div_": lambda w: w.div_(TABLE),
    "add_": lambda w: w.add_(0.1),
    "masked_fill_": lambda w: w.masked_fill_(MASK, 0.0),
    "mul": lambda w: w * TABLE,
    "masked_fill": lambda w: w.masked_fill(MASK, 0.0),
    "where": lambda w: torch.where(MASK, 0.0, w),
    "clone": lambda w: w.clone(),
    "buffer.mul_": lambda w: TABLE.expand(2, 6, 6).clone().mul_(w),
    "transposed": lambda w: w.mT.mul_(2).mT,
}
UNFOLLOWED = {
    "clamp_": lambda w: w.clamp_(max=0.3),
    "sub_": lambda w: w.sub_(0.1),
    "a view": seen,
    "detach().mul_": lambda w: (w.detach().mul_(1.0), w)[1],
}


class Steps(nn.Module):
    """Weights that are dropped out and changed, in some order, before they meet the values; it returns all of them."""

    def __init__(self, names: list[str], rate: float, inplace: bool = False):
        super().__init__()
        self.names, self.rate, self.inplace = names, rate, inplace

    def forward(self, s: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        first = w = s.softmax(-1)
        for name in self.names:
            w = self.dropped(w) if name == "dropout" else (CHANGES | UNFOLLOWED)[name](w)
        return w @ x, first, w

    def dropped(self, w: Tensor) -> Tensor:
        return F.dropout(w, self.rate, True, self.inplace)


def step(model: nn.Module, s: Tensor, x: Tensor, grad: bool):
    """Outputs and gradients, or what torch says where the model itself cannot be trained."""
    torch.manual_seed(5)
    s, x = (leaf.clone().requires_grad_(grad) for leaf in (s, x))
    with torch.set_grad_enabled(grad):
        out = model(s, x)
    if not grad:
        return out, None
    try:
        (out[0].square().sum() + (out[1] * TABLE).sum()).backward()
    except RuntimeError as refused:
        return out, str(refused)[:60]
    return out, (s.grad, x.grad)


def same(a, b) -> bool:
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return torch.equal(a, b) if isinstance(a, Tensor) else a == b


def drawn(seed: int) -> list[str]:
    rng = torch.Generator().manual_seed(seed)
    names = list(CHANGES | UNFOLLOWED if seed % 4 == 0 else CHANGES)
    made = [names[i] for i in torch.randint(len(names), (int(torch.randint(1, 5, (), generator=rng)),), generator=rng)]
    made.insert(int(torch.randint(len(made) + 1, (), generator=rng)), "dropout")
    return made


@pytest.mark.parametrize("grad", [True, False], ids=["training", "no_grad"])
@pytest.mark.parametrize("seed", range(60))
def test_steps_are_the_same_and_the_map_is_of_the_weights_before_dropout(seed, grad):
    check(Steps(drawn(seed), 0.4, inplace=seed % 5 == 1 and not grad), grad, torch.no_grad)


@pytest.mark.parametrize("name", CHANGES | UNFOLLOWED)
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("grad", [True, False], ids=["training", "no_grad"])
def test_each_change_after_and_before_dropout(name, after, grad):
    check(Steps(["dropout", name] if after else [name, "dropout"], 0.4), grad, torch.no_grad)


@pytest.mark.parametrize("seed", range(20))
def test_in_inference_mode_where_torch_counts_no_versions(seed):
    check(Steps(drawn(seed), 0.4, inplace=seed % 3 == 0), False, torch.inference_mode)


def check(model: Steps, grad: bool, mode) -> None:
    with torch.no_grad() if grad else mode():
        s = torch.randn(2, 6, 6, generator=torch.Generator().manual_seed(1))
        x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(2))
    with torch.enable_grad() if grad else mode():
        alone = step(model, s, x, grad)
        with record(model) as rec:
            heard = step(model, s, x, grad)
        assert same(alone, heard)
        whole = Steps([name for name in model.names if name != "dropout"], 0.0)
        expected = step(whole, s, x, False)[0][2]
    if rec.missed:
        assert set(model.names) & set(UNFOLLOWED)
    else:
        (amap,) = rec.maps.values()
        assert_close(amap.weights()[:, 0], expected, atol=1e-6, rtol=1e-5)


def test_weights_that_change_after_they_were_dropped_out_are_those_from_before():
    class Late(nn.Module):
        def forward(self, s, x):
            p = s.softmax(-1)
            w = F.dropout(p, 0.5, True)
            p.mul_(100)
            return w @ x

    s, x = torch.randn(2, 4, 4), torch.randn(2, 4, 3)
    with torch.no_grad(), record() as rec:
        Late()(s, x)
    (amap,) = rec.maps.values()
    assert_close(amap.weights()[:, 0], s.softmax(-1))


def test_a_buffer_of_the_models_is_written_once():
    class Buffered(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("room", torch.zeros(2, 4, 4))

        def forward(self, s, x):
            w = F.dropout(s.softmax(-1), 0.5, True)
            return torch.mul(w, 2, out=self.room) @ x

    s, x = torch.randn(2, 4, 4), torch.randn(2, 4, 3)
    rooms, model = [], Buffered()
    for listening in (False, True):
        torch.manual_seed(0)
        with torch.no_grad():
            if listening:
                with record(model) as rec:
                    model(s, x)
            else:
                model(s, x)
        rooms.append(model.room.clone())
    assert torch.equal(*rooms)
    (amap,) = rec.maps.values()
    assert_close(amap.weights()[:, 0], 2 * s.softmax(-1))


def test_layers_of_torch_train_the_same():
    def grads(listening: bool):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 4, 32, 0.3, batch_first=True)
        x = torch.randn(2, 6, 16)
        if listening:
            with record(layer, grad=True):
                out = layer(x)
        else:
            out = layer(x)
        out.square().sum().backward()
        return [p.grad for p in layer.parameters()]

    assert same(grads(False), grads(True))
