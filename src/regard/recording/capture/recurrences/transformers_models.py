"""The recurrences of transformers: functions of its modeling files, and the lightning attention of MiniMax.

    gated delta rule    qwen3_next, qwen3_5, olmo_hybrid: q, k, decay and beta
    Kimi delta rule     kimi_linear: the same with a decay for each feature
    Mamba-2             mamba2 and hybrids: C, B, A and dt of the scan
    lightning           minimax: projections of the module, read once more

These are no operators of torch: while a record listens, the modules that are loaded have wrappers in their place.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial, wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.core.errors import Refused
from regard.core.recurrent.implied_map import ImpliedMap

from ..function_mode import RecordingMode, active_mode, switches
from ..refcounted_context import RefcountedContext
from .recurrent_call import IN_A_STATE, RecurrentCall, implied


def _read_delta(mode: RecordingMode, name: str, given: dict[str, Any]) -> Any:
    """(batch, n, heads, d) tensors query, key, value, g, beta of transformers' delta rules."""
    if given.get("initial_state") is not None:
        mode.miss(name, IN_A_STATE)
        return mode.run()
    q, k, v, g, beta = (given[key].transpose(1, 2) for key in ("query", "key", "value", "g", "beta"))
    scale = q.shape[-1] ** -0.5
    with torch.no_grad():
        if given.get("use_qk_l2norm_in_kernel"):
            q, k = (x.float() * torch.rsqrt(x.float().square().sum(-1, keepdim=True) + 1e-6) for x in (q, k))
        amap = implied(q, k, g, beta, scale, tuple(q.shape[:2]))
    return _dispatched(mode, name, amap, v)


def _dispatched(mode: RecordingMode, name: str, amap: ImpliedMap, v: Tensor, beside: Tensor | None = None) -> Any:
    """Of a function that gives (batch, n, heads, d_v), alone or as the first of several; `beside` is added to it."""

    def give(weights: Tensor) -> Tensor:
        out = (weights.to(v.dtype) @ v).transpose(1, 2)
        return out if beside is None else out + beside

    several = None

    def own() -> Any:
        nonlocal several
        found = mode.run()
        several = found[1:] if isinstance(found, tuple) else None
        return found[0] if isinstance(found, tuple) else found

    out = mode.dispatch(RecurrentCall(amap, v, give, name), own)
    if several is None:  # other weights were put in: what follows the output stays the model's own
        found = mode.run()
        several = found[1:] if isinstance(found, tuple) else None
    return out if several is None else (out, *several)


def _read_scan(mode: RecordingMode, name: str, given: dict[str, Any]) -> Any:
    """x (batch, n, heads, d), dt (batch, n, heads), A (heads,), B and C (batch, n, groups, state) of Mamba-2's scan."""
    if given.get("initial_states") is not None:
        mode.miss(name, IN_A_STATE)
        return mode.run()
    x, dt, rate, b, c = (given[key] for key in ("hidden_states", "dt", "A", "B", "C"))
    with torch.no_grad():
        dt = dt.float() if given.get("dt_bias") is None else dt.float() + given["dt_bias"].float()
        dt = functional.softplus(dt) if given.get("dt_softplus") else dt
        low, high = given.get("dt_limit", (0.0, float("inf")))
        dt = dt.clamp(low, high).transpose(1, 2)  # (batch, heads, n)
        each = x.shape[2] // b.shape[2]
        b, c = (y.float().repeat_interleave(each, 2).transpose(1, 2) for y in (b, c))
        amap = implied(c, b * dt[..., None], rate.float()[:, None] * dt, None, 1.0, tuple(c.shape[:2]))
        skip = given.get("D")
        beside = None if skip is None else skip[:, None] * x
    return _dispatched(mode, name, amap, x.transpose(1, 2), beside)


def _read_step(mode: RecordingMode, name: str, given: dict[str, Any]) -> Any:
    mode.miss(name, IN_A_STATE)
    return mode.run()


# Functions of transformers' modeling files, by name: how they are read, and the names of what is passed by place.
DELTA = ("query", "key", "value", "g", "beta")
Read = Callable[[RecordingMode, str, dict[str, Any]], Any]
READERS: dict[str, tuple[Read, tuple[str, ...]]] = {
    "torch_chunk_gated_delta_rule": (_read_delta, DELTA),
    "torch_recurrent_gated_delta_rule": (_read_delta, DELTA),
    "chunk_kimi_delta_attention": (_read_delta, DELTA),
    "recurrent_kimi_delta_attention": (_read_delta, DELTA),
    "mamba2_chunk_scan": (_read_scan, ("hidden_states", "dt", "A", "B", "C", "chunk_size", "D", "dt_bias")),
    "mamba2_selective_state_update": (_read_step, ()),
}


def _wrapped(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    read, places = READERS[name]

    @wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None:
            return original(*args, **kwargs)

        def whole() -> Any:
            with mode.paused():
                return original(*args, **kwargs)

        given = dict(zip(places, args, strict=False)) | kwargs
        return mode.guarded(name, lambda: read(mode, name, given), whole)

    return run


def _lightning(original: Callable[..., Any]) -> Callable[..., Any]:
    """MiniMax: the module's projections once more, since its recurrence is written out inside its forward."""

    @wraps(original)
    def forward(self: Any, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is None:
            return original(self, hidden_states, *args, **kwargs)

        def whole() -> Any:
            with mode.paused():
                return original(self, hidden_states, *args, **kwargs)

        return mode.guarded("lightning attention", lambda: read(mode, self, hidden_states, args, kwargs), whole)

    def read(mode: RecordingMode, layer: Any, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = dict(zip(("position_embeddings", "attention_mask", "past_key_values"), args, strict=False)) | kwargs
        cache, mask = given.get("past_key_values"), given.get("attention_mask")
        if cache is not None and cache.get_linear_cache(layer.layer_idx) is not None:
            mode.miss("lightning attention", IN_A_STATE)
            return mode.run()
        with torch.no_grad(), mode.paused():
            mixed = layer.act_fn(layer.qkv_proj(x))
            if mask is not None and mask.ndim == 2 and mask.shape[0] > 1 and mask.shape[1] > 1:
                mixed = mixed * mask[:, : x.shape[1], None].to(mixed.dtype)
            q, k, v = mixed.unflatten(-1, (layer.num_attention_heads, 3 * layer.head_dim)).transpose(1, 2).chunk(3, -1)
            decay = -layer.slope_rate.reshape(-1, 1).float().expand(*q.shape[:-1])
            amap = implied(q, k, decay, None, 1.0, tuple(q.shape[:2]))

        def refuse(weights: Tensor) -> Any:
            raise Refused("MiniMax's lightning attention is one module with its norm and gate: its weights stay.")

        return mode.dispatch(RecurrentCall(amap, v, refuse, "lightning attention"), mode.run)

    return forward


@lru_cache(maxsize=1)
def _modeling_files(count: int, last: str) -> list[str]:
    """The loaded modeling files of transformers; searched again once another module was imported."""
    return [name for name in sys.modules if name.startswith("transformers.models.") and ".modeling_" in name]


def _replaced() -> Iterator[tuple[Any, str, Any]]:
    """The functions to wrap in the loaded modules of transformers: owner, name, wrapper."""
    for module_name in _modeling_files(len(sys.modules), next(reversed(sys.modules))):
        module = sys.modules.get(module_name)
        if module is None:
            continue
        for name in READERS:
            found = vars(module).get(name)
            if found is not None:
                yield module, name, _wrapped(name, found)
        layer = vars(module).get("MiniMaxLightningAttention")
        if layer is not None:
            yield layer, "forward", _lightning(layer.forward)


@switches.append
@RefcountedContext
@contextmanager
def _recurrences_captured() -> Iterator[None]:
    kept = []
    for where, name, wrapper in list(_replaced()):
        kept.append(partial(setattr, where, name, vars(where)[name]))
        setattr(where, name, wrapper)
    try:
        yield
    finally:
        for restore in kept:
            restore()
