"""The fast path gives the bits of the plain one: outputs, gradients and maps of random calls, made again and again."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard import Causal, Entmax, Padding, Sigmoid, Window, attend
from regard.core import fast_path, plan_cache
from regard.core.caches.lru_cache import LruCache
from regard.core.scores import Dot, Gaussian, ScaledDot

SCORES: dict[str, Any] = {
    "scaled_dot": lambda: "scaled_dot",
    "dot": lambda: "dot",
    "gaussian": lambda: "gaussian",
    "cosine": lambda: "cosine",
    "ScaledDot": lambda: ScaledDot(scale=0.3),
    "Dot": Dot,
    "Gaussian": lambda: Gaussian(2.0),
    "learned Gaussian": lambda: Gaussian(2.0, learned=True),
}
ALIGNMENTS: dict[str, Any] = {
    "softmax": lambda: "softmax",
    "sigmoid": lambda: "sigmoid",
    "Sigmoid": lambda: Sigmoid(-1.0),
    "entmax15": lambda: "entmax15",
    "Entmax": lambda: Entmax(1.3),
}
STRUCTURES: dict[str, Any] = {
    "none": lambda: None,
    "causal": lambda: Causal("end"),
    "window": lambda: Causal("end") & Window(2, 0, align="end"),
    "padding": lambda: Padding(torch.tensor([5, 3])),
}
CONTEXTS: dict[str, Any] = {
    "eager": nullcontext,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}
CHANGES = [
    "new numbers",
    "the same tensors changed in place",
    "constants of the score",
    "not contiguous",
    "a new length",
]
BACKENDS = ["auto", "chunked", "reference"]


def steps(drawn: dict[str, Any]) -> Iterator[list[Tensor]]:
    """out, the weights of the map and the gradients of every call of a sequence."""
    torch.manual_seed(drawn["seed"])
    score, align, over = SCORES[drawn["score"]](), ALIGNMENTS[drawn["align"]](), STRUCTURES[drawn["over"]]()
    heads, m = drawn["heads"], 5
    q, k, v = (torch.randn(2, h, n, 4, dtype=drawn["dtype"]) for h, n in ((2, 3), (heads, m), (heads, m)))
    for change in ("none", "none", *drawn["changes"]):
        if change == "the same tensors changed in place":
            q, k, v = q.detach(), k.detach(), v.detach()
            k.mul_(1.5)
        elif change == "constants of the score" and isinstance(score, ScaledDot | Gaussian):
            score.fixed = score.fixed * 2
        elif change == "not contiguous":
            q, k, v = (x.detach().transpose(-1, -2).contiguous().transpose(-1, -2) for x in (q, k, v))
        elif change == "a new length":
            k, v = (torch.cat([x.detach(), x.detach()[..., :1, :]], -2) for x in (k, v))
        else:
            q, k, v = (torch.randn_like(x) for x in (q, k, v))
        q, k, v = (x.detach().requires_grad_(drawn["trains"]) for x in (q, k, v))
        context: AbstractContextManager[Any] = CONTEXTS[drawn["context"]]()
        with context:
            found = attend(q, k, v, score, align, over, backend=drawn["backend"])
            results = [found.out, found.map.weights(), found.map.entropy()]
        if found.out.requires_grad and drawn["trains"]:
            results += torch.autograd.grad(found.out, (q, k, v), torch.ones_like(found.out))
        yield [x.detach().clone() for x in results]


@settings(max_examples=150)
@given(
    st.fixed_dictionaries(
        {
            "score": st.sampled_from(list(SCORES)),
            "align": st.sampled_from(list(ALIGNMENTS)),
            "over": st.sampled_from(list(STRUCTURES)),
            "context": st.sampled_from(list(CONTEXTS)),
            "backend": st.sampled_from(BACKENDS),
            "dtype": st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
            "heads": st.sampled_from([2, 1]),
            "trains": st.booleans(),
            "changes": st.lists(st.sampled_from(CHANGES), min_size=1, max_size=5),
            "seed": st.integers(0, 1000),
        }
    )
)
def test_every_call_gives_the_same_bits_on_both_paths(drawn: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_cache, "calls", LruCache())
        runs = []
        for enabled in (True, False):
            patch.setattr(fast_path, "enabled", enabled)
            runs.append(list(steps(drawn)))
    for fast, plain in zip(*runs, strict=True):
        assert len(fast) == len(plain)
        assert all(x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(fast, plain, strict=True))


def test_the_random_calls_reach_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "calls", LruCache())
    monkeypatch.setattr(fast_path, "enabled", True)
    drawn = {"score": "ScaledDot", "align": "softmax", "over": "causal", "context": "eager", "backend": "auto"}
    drawn |= {"heads": 1, "trains": True, "seed": 0}
    for dtype in (torch.float32, torch.bfloat16):
        list(steps(drawn | {"dtype": dtype, "over": "none", "changes": CHANGES}))
    assert sum(bool(call) for call in plan_cache.calls.values()) >= 2
