"""Calls whose plan is known: the second of a kind does what the first did, and a change is a call of another kind."""

import pytest
import torch
from torch.testing import assert_close

import regard
from regard import Causal, Entmax, Mask, Padding, Sigmoid, Window, attend
from regard.core import plan_cache as known
from regard.core import registry
from regard.core.plan import Plan
from regard.core.scores import Dot, Gaussian, ScaledDot


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(known, "kinds", {})


def made(n=5, m=5, d=4, heads=2, shared=2, seed=0):
    torch.manual_seed(seed)
    sizes = ((heads, n, d), (shared, m, d), (shared, m, d + 1))
    return [torch.randn(2, *size).requires_grad_() for size in sizes]


def runs():
    """How many kinds are run without a plan."""
    return sum(found is not None for found in known.kinds.values())


@pytest.mark.parametrize("over", [None, Causal()], ids=["full", "causal"])
@pytest.mark.parametrize("score", ["scaled_dot", "dot", ScaledDot(scale=0.3), Dot()], ids=str)
@pytest.mark.parametrize("heads", [2, 4])
def test_a_known_call_is_the_one_that_is_planned(score, over, heads):
    attend(*made(heads=heads), score, over=over)
    assert runs() == 1
    q, k, v = made(heads=heads, seed=1)
    found = attend(q, k, v, score, over=over)
    known.kinds.clear()
    expected = attend(q, k, v, score, over=over)
    assert type(found.map._source) is not Plan  # nobody has looked yet
    pull = torch.randn_like(found.out)
    results = [(one.out, *torch.autograd.grad(one.out, (q, k, v), pull)) for one in (found, expected)]
    assert all(torch.equal(x, y) for x, y in zip(*results, strict=True))
    assert torch.equal(found.map.weights(), expected.map.weights())
    assert torch.equal(found.map[1, 0].pyramid(2)[0].mass, expected.map[1, 0].pyramid(2)[0].mass)
    assert str(found.map._source) == str(expected.map._source)


def test_calls_that_differ_in_anything_are_of_other_kinds():
    q, k, v = made()
    calls = [
        {},
        {"score": "dot"},
        {"score": ScaledDot(scale=0.1)},
        {"score": ScaledDot(scale=0.2)},
        {"align": "sigmoid"},
        {"align": Sigmoid(-1.0)},
        {"align": Sigmoid(-2.0)},
        {"align": Entmax(1.3)},
        {"score": Gaussian(1.0)},
        {"score": Gaussian(2.0)},
        {"score": "gaussian"},
        {"over": Causal()},
        {"over": Causal("end") & Window(1, 0)},
        {"over": Causal("end") & Window(2, 0)},
        {"over": Window(1, 2)},
        {"over": Window(2, 1)},
        {"backend": "reference"},
    ]
    for options in [*calls, *calls]:
        backend = options.get("backend", "auto")
        expected = attend(q, k, v, backend="reference", **{k: x for k, x in options.items() if k != "backend"})
        assert_close(attend(q, k, v, **options | {"backend": backend}).out, expected.out)
    usual = {"score": "scaled_dot", "align": "softmax", "over": None, "backend": "auto"}
    assert len({known.kind_of(q, k, v, **usual | options) for options in calls}) == len(calls)
    kinds = len(known.kinds)
    attend(q.bfloat16(), k.bfloat16(), v.bfloat16())
    attend(q, k, k), attend(q, k, k.clone())
    attend(q[:, :, :3], k, v)
    assert len(known.kinds) == kinds + 4


def test_a_score_that_changes_is_followed():
    q, k, v = made()
    score = ScaledDot(scale=0.3)
    for _ in range(2):
        attend(q, k, v, score)
    amap, expected = attend(q, k, v, score).map, attend(q, k, v, score, backend="reference").map.weights()
    score.fixed = 3.0
    assert_close(amap.weights(), expected)  # of the call that was
    assert_close(attend(q, k, v, score).out, attend(q, k, v, ScaledDot(scale=3.0), backend="reference").out)


@pytest.mark.parametrize(
    "options",
    [
        {"score": Gaussian(2.0, learned=True)},
        {"score": Gaussian(2.0, features=True)},
        {"score": "cosine"},
        {"score": ScaledDot(features=True)},
        {"dropout": 0.5},
        {"align": Entmax(1.5, learned=True)},
        {"align": "hard", "sample": True, "seed": 1},
        {"over": Padding(torch.tensor([3, 4]))},
        {"over": Mask(keep=torch.ones(5, 5, dtype=torch.bool))},
    ],
    ids=str,
)
def test_what_holds_tensors_or_is_no_dot_product_is_planned_each_time(options):
    q, k, v = (x[..., :4] for x in made())
    for _ in range(2):
        attend(q, k, v, **options)
    assert not known.kinds


def test_lengths_that_change_in_place_are_followed():
    q, k, v = made()
    lengths = torch.tensor([5, 5])
    attend(q, k, v, over=Padding(lengths))
    lengths[0] = 1
    assert_close(attend(q, k, v, over=Padding(lengths)).out[0, 0, 0], v[0, 0, 0])


def test_a_change_in_place_is_noticed_when_the_map_is_read():
    q, k, v = made()
    attend(q, k, v)
    amap = attend(q, k, v).map
    with torch.no_grad():
        k.mul_(2)
    with pytest.raises(RuntimeError, match="k was changed in place"):
        amap.weights()


def test_autocast_is_another_call_and_does_not_reach_a_map_from_before():
    q, k, v = made()
    expected = attend(q, k, v).map.weights()
    found = attend(q, k, v)
    with torch.autocast("cpu", torch.bfloat16):
        assert attend(q, k, v).out.dtype == torch.bfloat16
        assert found.map._source.q is q
    assert torch.equal(found.map.weights(), expected)


def test_transforms_and_tracing_see_every_call():
    q, k, v = made()
    for _ in range(2):
        attend(q, k, v)
    found = torch.func.vmap(lambda q, k, v: attend(q, k, v, backend="reference").out)(q, k, v)
    assert_close(found, attend(q, k, v).out)
    compiled = torch.compile(lambda q, k, v: attend(q, k, v).out, fullgraph=True, backend="eager")
    assert_close(compiled(q, k, v), attend(q, k, v).out)


def test_who_records_hears_known_calls():
    q, k, v = (x.detach() for x in made())
    for _ in range(2):
        attend(q, k, v)
    with regard.record() as recorded:
        expected = attend(q, k, v).map.weights()
    (amap,) = recorded.maps.values()
    assert_close(amap.weights(), expected)


def test_errors_are_those_of_a_first_call():
    q, k, v = made()
    for _ in range(2):
        attend(q, k, v)
    with pytest.raises(ValueError, match="width"):
        attend(q, k[..., :3], v)
    with pytest.raises(ValueError, match="unknown"):
        attend(q, k, v, backend="fastest")
    with pytest.raises(TypeError):
        attend(q, k, 3)


def test_a_backend_that_enlists_later_is_asked(monkeypatch):
    q, k, v = made()
    for _ in range(2):
        attend(q, k, v)

    class First:
        name = "first"

        def refusals(self, plan):
            return []

        def passes(self, plan):
            return False

        def run(self, plan):
            return registry.BackendResult(plan.v * 0)

    monkeypatch.setattr(registry, "_backends", [First(), *registry.backends()])
    assert not attend(q, k, v).out.any()


def test_gradients_follow_what_asks_for_them():
    q, k, v = made()
    attend(q, k, v)
    assert attend(q, k, v).out.requires_grad
    with torch.no_grad():
        assert not attend(q, k, v).out.requires_grad
    with torch.inference_mode():
        found = attend(q.clone(), k.clone(), v.clone())
        assert found.map.weights().sum(-1).allclose(torch.ones(()))
    assert not attend(q.detach(), k.detach(), v.detach()).out.requires_grad


def test_only_so_many_kinds_are_kept(monkeypatch):
    monkeypatch.setattr(known, "MOST", 3)
    for n in range(1, 9):
        attend(*made(n=n))
        assert len(known.kinds) <= 3
