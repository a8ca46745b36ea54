"""Decoding with a cache: step by step equals the whole sequence at once, and maps of earlier steps stay right."""

import copy

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard import ALiBi, Causal, Full, RelativeBias, ScaledDot, Window
from regard.nn import Attention, Cache

DIM, HEADS, LENGTH = 12, 3, 9
DECODING = Causal(align="end")
WAYS = {
    "softmax": ({}, DECODING),
    "entmax": ({"align": "entmax15"}, DECODING),
    "sparsemax": ({"align": "sparsemax"}, DECODING),
    "hard": ({"align": "hard"}, DECODING),
    "sigmoid": ({"align": "sigmoid"}, DECODING),
    "additive": ({"score": "additive"}, DECODING),
    "gaussian": ({"score": "gaussian"}, DECODING),
    "linear kernel": ({"score": "linear_kernel"}, DECODING),
    "rotary": ({"rotary": True}, DECODING),
    "window": ({}, Causal(align="end") & Window(2, 0, align="end")),
    "ALiBi": ({"score": ScaledDot() | ALiBi(HEADS, align="end")}, DECODING),
    "relative bias": ({"score": ScaledDot() | RelativeBias(HEADS, 3, align="end")}, DECODING),
    "grouped queries": ({"kv_heads": 1}, DECODING),
    "all at once": (
        {"kv_heads": 1, "rotary": 100.0, "align": "entmax15", "score": ScaledDot() | ALiBi(HEADS, align="end")},
        DECODING & Window(4, 0, align="end"),
    ),
}


def inputs(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(**options) -> Attention:
    torch.manual_seed(0)
    return Attention(DIM, HEADS, dtype=torch.float64, **options).eval()


@pytest.mark.parametrize("steps", [[1] * LENGTH, [4, 1, 1, 3], [LENGTH]], ids=["one by one", "prompt", "at once"])
@pytest.mark.parametrize("recorded", [False, True], ids=["no gradient", "gradient"])
@pytest.mark.parametrize("way", WAYS)
def test_step_by_step_equals_the_whole(way, recorded, steps):
    options, over = WAYS[way]
    made, x, cache = layer(**options), inputs(2, LENGTH, DIM), Cache()
    with torch.set_grad_enabled(recorded):
        whole = made(x, over=over)
        outs, maps = [], []
        for part in x.split(steps, 1):
            out, amap = made(part, over=over, cache=cache)
            outs.append(out)
            maps.append(amap)
    assert_close(torch.cat(outs, 1), whole.out)
    assert cache.length == LENGTH
    place = 0
    for size, amap in zip(steps, maps, strict=True):  # read after all steps: earlier maps are still right
        seen = place + size
        assert_close(amap.weights(), whole.map.weights()[..., place:seen, :seen])
        place = seen


@pytest.mark.parametrize("options", [{"align": "monotonic"}, {"score": "location_aware"}], ids=str)
def test_a_stepwise_mechanism_goes_on_over_keys_that_came_later(options):
    made, x, cache, state = layer(**options), inputs(2, LENGTH, DIM), Cache(), None
    outs = []
    for part in x.split(2, 1):
        found = made(part, over=DECODING, cache=cache, state=state)
        state = found.state
        outs.append(found.out)
    assert_close(torch.cat(outs, 1), made(x, over=DECODING).out)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("room", [0, 4, 64])
def test_any_room_gives_the_same(room, inference):
    made, x, cache = layer(), inputs(2, 40, DIM), Cache(room)
    with torch.inference_mode(inference), torch.no_grad():
        whole = made(x, over=DECODING).out
        assert_close(torch.cat([made(part, over=DECODING, cache=cache).out for part in x.split(1, 1)], 1), whole)


def test_a_cache_of_inference_mode_can_be_taken_outside():
    made, x, cache = layer(), inputs(2, 5, DIM), Cache()
    with torch.inference_mode():
        made(x[:, :4], over=DECODING, cache=cache)
    with torch.no_grad():
        assert_close(made(x[:, 4:], over=DECODING, cache=cache).out, made(x, over=DECODING).out[:, 4:])


def test_gradients_flow_through_all_steps():
    made, x = layer(), inputs(2, LENGTH, DIM)
    made(x, over=DECODING).out.square().sum().backward()
    wanted = {name: p.grad.clone() for name, p in made.named_parameters()}
    made.zero_grad()
    cache = Cache()
    torch.cat([made(part, over=DECODING, cache=cache).out for part in x.split(2, 1)], 1).square().sum().backward()
    for name, parameter in made.named_parameters():
        assert_close(parameter.grad, wanted[name])


def test_room_is_taken_once_and_doubles():
    cache, moves = Cache(), set()
    for step in range(100):
        cache.append(inputs(1, 2, 1, 4, seed=step), inputs(1, 2, 1, 4, seed=step))
        moves.add(cache.keys.data_ptr())
    assert len(moves) <= 5
    roomy, places = Cache(room=100), set()
    for step in range(100):
        roomy.append(inputs(1, 2, 1, 4, seed=step), inputs(1, 2, 1, 4, seed=step))
        places.add(roomy.keys.data_ptr())
    assert len(places) == 1
    assert_close(roomy.keys, cache.keys)


def test_a_forgotten_step_leaves_its_map_right():
    made, x, cache = layer(), inputs(2, 8, DIM), Cache()
    with torch.no_grad():
        draft = made(x[:, :6], over=DECODING, cache=cache).map
        before = draft.weights().clone()
        cache.truncate(3)
        assert cache.length == 3
        other = made(x[:, 6:], over=DECODING, cache=cache)
        assert_close(draft.weights(), before)
        kept = torch.cat([x[:, :3], x[:, 6:]], 1)
        assert_close(other.out, made(kept, over=DECODING).out[:, 3:])


def test_beams_are_reordered_and_repeated():
    made, x, cache = layer(rotary=True), inputs(3, 6, DIM), Cache()
    index = torch.tensor([2, 2, 0, 1])
    with torch.no_grad():
        before = made(x[:, :4], over=DECODING, cache=cache).map
        seen = before.weights().clone()
        cache.reorder(index)
        out = made(x[index, 4:], over=DECODING, cache=cache).out
        assert_close(out, made(x[index], over=DECODING).out[:, 4:])
        assert_close(before.weights(), seen)


@pytest.mark.parametrize("twin", [Cache.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_two_continuations_of_one_past_grow_apart(twin):
    made, x, y = layer(), inputs(1, 6, DIM), inputs(1, 6, DIM, seed=1)
    with torch.no_grad():
        cache = Cache()
        made(x[:, :4], over=DECODING, cache=cache)
        other = twin(cache)
        first = made(x[:, 4:], over=DECODING, cache=cache).out
        second = made(y[:, 4:], over=DECODING, cache=other).out
        assert_close(first, made(x, over=DECODING).out[:, 4:])
        assert_close(second, made(torch.cat([x[:, :4], y[:, 4:]], 1), over=DECODING).out[:, 4:])


def test_reset_takes_another_batch():
    made, cache = layer(), Cache()
    with torch.no_grad():
        made(inputs(3, 4, DIM), over=DECODING, cache=cache)
        cache.reset()
        assert cache.length == 0
        assert_close(
            made(inputs(2, 4, DIM), over=DECODING, cache=cache).out, made(inputs(2, 4, DIM), over=DECODING).out
        )


def test_without_batch():
    made, x, cache = layer(), inputs(5, DIM), Cache()
    with torch.no_grad():
        outs = [made(x[t : t + 1], over=DECODING, cache=cache).out for t in range(5)]
    assert_close(torch.cat(outs), made(x, over=DECODING).out.detach())


def test_a_memory_is_projected_once():
    made, x, memory = layer(key_dim=8), inputs(2, 5, DIM), inputs(2, 7, 8, seed=1)
    kept = made.remember(memory)
    calls = []
    made.k_proj.register_forward_hook(lambda *_: calls.append(1))
    steps = [made(x[:, t : t + 1], cache=kept).out for t in range(5)]
    assert not calls
    assert_close(torch.cat(steps, 1), made(x, memory).out)
    assert kept.length == 7


def test_full_lets_new_queries_see_one_another():
    made, x, cache = layer(), inputs(2, 6, DIM), Cache()
    with torch.no_grad():
        made(x[:, :4], over=Full(), cache=cache)
        assert_close(made(x[:, 4:], over=Full(), cache=cache).out, made(x).out[:, 4:])


def test_mistakes_say_what_to_type():
    made, x, cache = layer(), inputs(2, 4, DIM), Cache()
    with pytest.raises(ValueError, match=r'cache= needs over=.*\n.*Causal\(align="end"\)'):
        made(x, cache=cache)
    assert cache.length == 0
    made(x, over=DECODING, cache=cache)
    with pytest.raises(ValueError, match=r"Causal\(\) needs align="):
        made(x, over=Causal(), cache=cache)
    assert cache.length == 4, "a failed step is rolled back"
    with pytest.raises(ValueError, match=r"cache holds keys \(2, 3, 4, 4\).*got \(1, 3, 4, 4\).*reset\(\)"):
        made(x[:1], over=DECODING, cache=cache)
    with pytest.raises(ValueError, match=r"truncate\(length=9\): the cache holds 4"):
        cache.truncate(9)
    with pytest.raises(ValueError, match=r"Cache\(room=-1\)"):
        Cache(room=-1)
    with pytest.raises(TypeError, match="1-D integer"):
        cache.reorder([0, 1])
    memory = made.remember(x)
    with pytest.raises(ValueError, match="key= was given with a closed cache"):
        made(x, x, cache=memory)
    with pytest.raises(ValueError, match="closed"):
        memory.append(x, x)
    with pytest.raises(ValueError, match="rotary=None"):
        layer(rotary=True).remember(x)


def test_it_prints_what_it_holds():
    cache = Cache()
    assert repr(cache) == "Cache(length=0)"
    layer()(inputs(2, 4, DIM), over=DECODING, cache=cache)
    assert repr(cache) == "Cache(length=4, keys=(2, 3, 4, 4))"
