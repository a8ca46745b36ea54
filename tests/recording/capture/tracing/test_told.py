"""What a record says of weights that are no map: attention that is missed, and what is no attention, with its line."""

import threading
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import regard
from regard import intervene, record
from regard.interventions import Freeze


class Model(nn.Module):
    """One way of weighing values; layers of its own as parameters."""

    def __init__(self, run):
        super().__init__()
        self.run = run
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.gate = nn.Linear(8, 3)
        self.codes = nn.Parameter(torch.randn(5, 8))
        self.register_buffer("bins", torch.arange(3.0))
        self.register_buffer("cache", torch.zeros(2, 6, 8))

    def scores(self, x: Tensor) -> Tensor:
        return self.q(x) @ self.k(x).mT / 8**0.5

    def experts(self, x: Tensor) -> Tensor:
        return torch.stack([self.q(x), self.k(x), self.v(x)], -2)

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


def recorded(run):
    torch.manual_seed(0)
    model, x = Model(run).eval(), torch.randn(2, 6, 8)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with record(model) as rec:
            model(x)
    return rec, model, x


def top_two(m: Model, x: Tensor) -> Tensor:
    top = m.gate(x).softmax(-1).topk(2, -1)
    chosen = m.experts(x).gather(2, top.indices[..., None].expand(-1, -1, -1, 8))
    return (chosen * top.values[..., None]).sum(2)


OTHERS = {
    "dense router": lambda m, x: (m.gate(x).softmax(-1)[..., None] * m.experts(x)).sum(-2),
    "router by einsum": lambda m, x: torch.einsum("bte,bted->btd", m.gate(x).softmax(-1), m.experts(x)),
    "router of the best two": top_two,
    "codebook": lambda m, x: (x @ m.codes.mT).softmax(-1) @ m.codes,
    "expectation over classes": lambda m, x: m.gate(x).softmax(-1) @ m.bins,
    "features times their softmax": lambda m, x: (x * x.softmax(-1)) @ m.codes.mT,
}


@pytest.mark.parametrize("name", OTHERS)
def test_weights_over_what_parameters_index_are_no_attention(name):
    rec, _, _ = recorded(OTHERS[name])
    assert not rec.maps and not rec.missed
    assert rec.other and repr(rec) == f"Record(0 maps, 0 missed, {sum(rec.other.values())} other)"
    for entry in rec.other:
        assert entry.site == "Model" and entry.operator and entry.reason
        assert entry.file == "test_told.py" and entry.line > 0


NEITHER = {
    "gates": lambda m, x: torch.sigmoid(m.q(x)) * m.v(x),
    "a layer of sigmoids": lambda m, x: F.linear(torch.sigmoid(m.q(x)), m.codes),
    "probabilities": lambda m, x: m.gate(x).softmax(-1),
    "entropy": lambda m, x: -(m.gate(x).softmax(-1) * m.gate(x).log_softmax(-1)).sum(-1),
    "loss": lambda m, x: F.cross_entropy(m.gate(x).flatten(0, 1), torch.zeros(12, dtype=torch.long)),
    "squeeze and excitation": lambda m, x: x * torch.sigmoid(m.q(x.mean(1, keepdim=True))),
    "the best class": lambda m, x: m.codes[m.gate(x).softmax(-1).argmax(-1)],
}


@pytest.mark.parametrize("name", NEITHER)
def test_nothing_is_said_of_gates_and_probabilities(name):
    rec, _, _ = recorded(NEITHER[name])
    assert not rec.maps and not rec.missed and not rec.other


def cached(m: Model, x: Tensor) -> Tensor:
    m.cache.copy_(m.k(x))  # keys in a buffer, as a static cache has them
    return (m.q(x) @ m.cache.mT).softmax(-1) @ m.cache


MAPS = {
    "softmax": (lambda m, x: m.scores(x).softmax(-1) @ m.v(x), lambda m, x: m.scores(x).softmax(-1)),
    "sigmoid": (lambda m, x: m.scores(x).sigmoid() @ m.v(x), lambda m, x: m.scores(x).sigmoid()),
    "relu": (lambda m, x: F.relu(m.scores(x)) @ m.v(x), lambda m, x: F.relu(m.scores(x))),
    "late division": (lambda m, x: _late(m, x), lambda m, x: m.scores(x).softmax(-1)),
    "keys in a buffer": (cached, lambda m, x: (m.q(x) @ m.k(x).mT).softmax(-1)),
    "queries that are parameters": (
        lambda m, x: (m.codes @ m.k(x).mT).softmax(-1) @ x,
        lambda m, x: (m.codes @ m.k(x).mT).softmax(-1),
    ),
    "pooling": (
        lambda m, x: ((x @ m.codes[0]).softmax(-1)[..., None] * x).sum(1),
        lambda m, x: (x @ m.codes[0]).softmax(-1)[:, None],
    ),
}


def _late(m: Model, x: Tensor) -> Tensor:
    e = m.scores(x).exp()
    return (e @ m.v(x)) / e.sum(-1, keepdim=True)


@pytest.mark.parametrize("name", MAPS)
def test_weights_over_tokens_are_maps_and_go_back_in(name):
    run, truth = MAPS[name]
    rec, model, x = recorded(run)
    (amap,) = rec.maps.values()
    assert not rec.missed and not rec.other
    with torch.no_grad():
        expected = truth(model, x)
        assert_close(amap.weights().reshape(expected.shape), expected, atol=1e-6, rtol=1e-5)
        bare = model(x)
        with intervene(model, Freeze(rec)):
            assert_close(model(x), bare, atol=1e-5, rtol=0)


def one_by_one(m: Model, x: Tensor) -> Tensor:
    w, v, out = m.scores(x).softmax(-1), m.v(x), 0.0
    for j in range(6):
        out = out + w[..., j, None] * v[:, j, None]
    return out


MISSED = {
    "a running sum": (
        lambda m, x: (m.scores(x).softmax(-1)[..., None] * m.v(x)[:, None]).cumsum(2)[:, :, -1],
        "cumsum",
    ),
    "key by key": (one_by_one, "mul"),
    "two parts of a row": (
        lambda m, x: sum(w @ v for w, v in zip(m.scores(x).softmax(-1).chunk(2, -1), m.v(x).chunk(2, 1), strict=True)),
        "matmul",
    ),
    "a function that is not followed": (
        lambda m, x: torch.cdist(m.scores(x).softmax(-1), m.scores(x).softmax(-1)) @ m.v(x),
        "cdist",
    ),
    "normalised over the queries": (lambda m, x: m.scores(x).softmax(-2) @ m.v(x), "matmul"),
    "linear attention": (
        lambda m, x: (F.elu(m.q(x)) + 1) @ ((F.elu(m.k(x)) + 1).mT @ m.v(x)),
        "matmul",
    ),
    "a part of a buffer": (
        lambda m, x: _through_a_view(m.scores(x).softmax(-1)) @ m.v(x),
        "copy",
    ),
}


def _through_a_view(w: Tensor) -> Tensor:
    room = torch.zeros(3, 2, 6, 6)
    room[1].copy_(w)
    return room[1]


@pytest.mark.parametrize("name", MISSED)
def test_attention_that_is_not_followed_is_missed_with_its_line(name):
    run, operator = MISSED[name]
    rec, _, _ = recorded(run)
    assert not rec.maps and not rec.other and rec.missed
    for entry in rec.missed:
        assert entry.site == "Model" and operator in entry.operator and entry.reason
        assert entry.file == "test_told.py" and entry.line > 0


def test_entries_are_in_files(tmp_path):
    rec, _, _ = recorded(OTHERS["codebook"])
    rec.missed += recorded(MISSED["key by key"][0])[0].missed
    loaded = regard.load(rec.save(tmp_path / "run.regard"))
    assert loaded.missed == rec.missed and loaded.other == rec.other
    (entry,) = loaded.other
    assert (entry.site, entry.file) == ("Model", "test_told.py")


@torch.jit.script
def scripted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)), -1), v)


@torch.jit.script
def doubled(x: Tensor) -> Tensor:
    return x * 2


def in_a_thread(m: Model, x: Tensor) -> Tensor:
    thread = threading.Thread(target=lambda: m.v(m.scores(x).softmax(-1) @ x))
    thread.start()
    thread.join()
    return x


def test_what_hides_from_python_is_told():
    rec, _, _ = recorded(lambda m, x: scripted(m.q(x), m.k(x), m.v(x)))
    (entry,) = rec.missed
    assert "TorchScript" in entry.operator and "not visible" in entry.reason
    rec, _, _ = recorded(lambda m, x: doubled(x))
    assert not rec.missed
    rec, _, _ = recorded(in_a_thread)
    (entry,) = rec.missed
    assert "another thread" in entry.reason and not rec.maps
    assert torch.jit.ScriptFunction.__call__.__name__ == "__call__" and threading.Thread.start.__module__ == "threading"


def test_a_model_that_ran_and_gave_no_map_says_so():
    model = Model(NEITHER["gates"])
    with pytest.warns(UserWarning, match=r"No attention was recorded: Model ran none that is visible\."), record(model):
        model(torch.randn(2, 6, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with record(model):
            pass
        with record(model) as rec:
            F.scaled_dot_product_attention(*torch.randn(3, 1, 1, 2, 4))
            MAPS["softmax"][0](model, torch.randn(2, 6, 8))
            model.run = MAPS["softmax"][0]
            model(torch.randn(2, 6, 8))
        assert len(rec.maps) == 1
