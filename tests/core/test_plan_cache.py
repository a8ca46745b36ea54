"""Cached calls: the third with a key does what the first two did, and a change of anything is another key."""

import copy
import pickle

import pytest
import torch
from torch.testing import assert_close

import regard
from regard import Causal, Entmax, Mask, Padding, Sigmoid, Window, attend
from regard.core import fast_path, plan_cache, registry
from regard.core.caches.lru_cache import LruCache
from regard.core.plan_cache import LazyPlan
from regard.core.scores import Dot, Gaussian, ScaledDot


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch):
    monkeypatch.setattr(fast_path, "enabled", True)
    monkeypatch.setattr(plan_cache, "calls", LruCache())


def made(n=5, m=5, d=4, heads=2, shared=2, seed=0):
    torch.manual_seed(seed)
    sizes = ((heads, n, d), (shared, m, d), (shared, m, d + 1))
    return [torch.randn(2, *size).requires_grad_() for size in sizes]


def compiled_calls():
    """How many keys are run without a plan."""
    return sum(bool(call) for call in plan_cache.calls.values())


@pytest.mark.parametrize("over", [None, Causal()], ids=["full", "causal"])
@pytest.mark.parametrize("score", ["scaled_dot", "dot", ScaledDot(scale=0.3), Dot()], ids=str)
@pytest.mark.parametrize("heads", [2, 4])
def test_a_cached_call_is_the_one_that_is_planned(score, over, heads):
    for _ in range(2):
        attend(*made(heads=heads), score, over=over)
    assert compiled_calls() == 1
    q, k, v = made(heads=heads, seed=1)
    found = attend(q, k, v, score, over=over)
    plan_cache.calls.clear()
    expected = attend(q, k, v, score, over=over)
    assert type(found.map._source) is LazyPlan and found.map._source._plan is None  # nobody has read the map yet
    assert type(expected.map._source) is not LazyPlan
    pull = torch.randn_like(found.out)
    results = [(one.out, *torch.autograd.grad(one.out, (q, k, v), pull)) for one in (found, expected)]
    assert all(torch.equal(x, y) for x, y in zip(*results, strict=True))
    assert torch.equal(found.map.weights(), expected.map.weights())
    assert torch.equal(found.map[1, 0].pyramid(2)[0].mass, expected.map[1, 0].pyramid(2)[0].mass)
    assert str(found.map._source) == str(expected.map._source)


def test_calls_that_differ_in_anything_have_other_keys():
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
    for options in calls * 3:
        backend = options.get("backend", "auto")
        expected = attend(q, k, v, backend="reference", **{k: x for k, x in options.items() if k != "backend"})
        assert_close(attend(q, k, v, **options | {"backend": backend}).out, expected.out)
    usual = {"score": "scaled_dot", "align": "softmax", "over": None, "backend": "auto"}
    keys = [plan_cache.key_of(q, k, v, **usual | options) for options in calls]
    same = {keys[calls.index({"score": "gaussian"})]}
    assert same == {plan_cache.key_of(q, k, v, **usual | {"score": Gaussian(1.0)})}  # a name means this object
    assert len(set(keys)) == len(calls) - 1
    entries = len(plan_cache.calls)
    for _ in range(2):
        attend(q.bfloat16(), k.bfloat16(), v.bfloat16())
        attend(q, k, k), attend(q, k, k.clone())
        attend(q[:, :, :3], k, v)
        attend(q.detach(), k.detach(), v.detach())
    assert len(plan_cache.calls) == entries + 5


def test_a_score_that_changes_is_followed():
    q, k, v = made()
    score = ScaledDot(scale=0.3)
    for _ in range(3):
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
    for _ in range(3):
        attend(q, k, v, **options)
    assert not len(plan_cache.calls)


def test_lengths_that_change_in_place_are_followed():
    q, k, v = made()
    lengths = torch.tensor([5, 5])
    for _ in range(3):
        attend(q, k, v, over=Padding(lengths))
    lengths[0] = 1
    assert_close(attend(q, k, v, over=Padding(lengths)).out[0, 0, 0], v[0, 0, 0])


def test_a_change_in_place_is_noticed_when_the_map_is_read():
    q, k, v = made()
    for _ in range(2):
        attend(q, k, v)
    amap = attend(q, k, v).map
    with torch.no_grad():
        k.mul_(2)
    with pytest.raises(RuntimeError, match="k was changed in place"):
        amap.weights()


def test_autocast_is_another_call_and_does_not_reach_a_map_from_before():
    q, k, v = made()
    attend(q, k, v)
    expected = attend(q, k, v).map.weights()
    found = attend(q, k, v)
    assert type(found.map._source) is LazyPlan
    with torch.autocast("cpu", torch.bfloat16):
        assert attend(q, k, v).out.dtype == torch.bfloat16
        assert found.map._source.q is q
    assert torch.equal(found.map.weights(), expected)


def test_transforms_and_tracing_see_every_call():
    q, k, v = made()
    for _ in range(3):
        attend(q, k, v)
    found = torch.func.vmap(lambda q, k, v: attend(q, k, v, backend="reference").out)(q, k, v)
    assert_close(found, attend(q, k, v).out)
    compiled = torch.compile(lambda q, k, v: attend(q, k, v).out, fullgraph=True, backend="eager")
    assert_close(compiled(q, k, v), attend(q, k, v).out)


def test_a_recording_sees_cached_calls():
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

    class First(registry.Backend):
        name = "first"

        def refusals(self, plan):
            return []

        def defers(self, plan):
            return False

        def run(self, plan):
            return registry.BackendResult(plan.v * 0)

    monkeypatch.setattr(registry, "_backends", [First(), *registry.backends()])
    assert not attend(q, k, v).out.any()


def test_gradients_follow_what_asks_for_them():
    q, k, v = made()
    for _ in range(2):
        attend(q, k, v)
    assert attend(q, k, v).out.requires_grad
    with torch.no_grad():
        assert not attend(q, k, v).out.requires_grad
    with torch.inference_mode():
        found = attend(q.clone(), k.clone(), v.clone())
        assert found.map.weights().sum(-1).allclose(torch.ones(()))
    assert not attend(q.detach(), k.detach(), v.detach()).out.requires_grad


def test_a_score_of_another_kind_with_the_same_constants_is_another_call():
    """What a subclass inherits says nothing of its own definition and state."""

    class Halved(ScaledDot):
        def forward(self, q, k):
            return super().forward(q, k) / 2

    class Offset(Sigmoid):
        pass

    assert ScaledDot().plan_key() is not None and Halved().plan_key() is None
    assert Sigmoid(1.0).plan_key() is not None and Offset(1.0).plan_key() is None
    q, k, v = made()
    for _ in range(3):
        attend(q, k, v, ScaledDot())
        found = attend(q, k, v, Halved())
    assert_close(found.out, attend(q, k, v, ScaledDot(scale=0.25)).out)


def test_decoding_with_a_growing_cache_evicts_nothing():
    q, k, v = (x.detach() for x in made(n=1, m=600))
    for _ in range(2):
        attend(q, k[..., :7, :], v[..., :7, :])
    for m in range(8, 600):
        attend(q, k[..., :m, :], v[..., :m, :])
    assert len(plan_cache.calls) == 1 and compiled_calls() == 1


def test_the_least_recently_used_is_evicted():
    cache = LruCache(capacity=3, candidates=2)
    for key in "abc":
        cache.put(key, key.upper())
    assert cache.get("a") == "A"
    cache.put("d", "D")
    assert set(cache) == {"a", "c", "d"} and cache.get("b") is None and len(cache) == 3


def test_a_key_is_admitted_the_second_time_among_the_last_seen_once():
    cache = LruCache(capacity=3, candidates=2)
    assert [cache.admits(key) for key in "aabcda"] == [False, True, False, False, False, False]
    assert cache.admits("d") and not cache.admits("b")


def test_the_number_of_entries_is_bounded(monkeypatch):
    monkeypatch.setattr(plan_cache, "calls", LruCache(capacity=3))
    for n in (1, 2, 3, 4, 5, 6, 7, 8):
        attend(*made(n=n)), attend(*made(n=n))
        assert len(plan_cache.calls) <= 3
    assert compiled_calls() == 3


def test_switched_off_every_call_is_planned_and_the_plan_says_so(monkeypatch):
    monkeypatch.setattr(fast_path, "enabled", False)
    monkeypatch.setattr(fast_path, "reason", fast_path.off_because("0", "2.13.0"))
    q, k, v = made()
    for _ in range(3):
        assert type(attend(q, k, v).map._source) is not LazyPlan
    assert not len(plan_cache.calls)
    assert "planned and launched the plain way: REGARD_FAST_PATH=0." in str(regard.plan(q, k, v))


@pytest.mark.parametrize(
    ("setting", "version", "off"),
    [
        (None, "2.13.0+cpu", None),
        ("1", "2.11.1", None),
        ("0", "2.13.0", "REGARD_FAST_PATH=0."),
        (None, "2.12.0", "It was tested with torch 2.11 and 2.13; this is 2.12.0."),
        (None, "2.14.0a0+git1", "It was tested with torch 2.11 and 2.13; this is 2.14.0a0+git1."),
    ],
)
def test_the_setting_and_the_version_of_torch_decide(setting, version, off):
    assert fast_path.off_because(setting, version) == off


def test_a_lazy_plan_answers_as_the_plan_and_can_be_copied_and_pickled():
    q, k, v = (x.detach() for x in made())
    for _ in range(2):
        attend(q, k, v)
    source = attend(q, k, v).map._source
    plan = regard.plan(q, k, v)
    assert (source.n, source.m, source.heads, source.backend) == (plan.n, plan.m, plan.heads, plan.backend)
    assert str(source) == str(plan) and source.plan is source.plan
    with pytest.raises(AttributeError, match="no_such_part"):
        getattr(source, "no_such_part")  # noqa: B009
    for copied in (copy.copy(source), copy.deepcopy(source), pickle.loads(pickle.dumps(source))):
        assert str(copied) == str(plan)
