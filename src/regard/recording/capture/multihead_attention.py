"""nn.MultiheadAttention and nn.TransformerEncoderLayer: their Python path, and the fast path in one operator."""

from collections.abc import Callable
from contextlib import nullcontext
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.structures import Full, Padding
from regard.core.torch_private import encoder_layer, native_multi_head_attention

from .calls import ScoredCall, read_call
from .function_mode import RecordingMode, readers
from .module_stack import as_if_in, innermost_module


def read_python(mode: RecordingMode, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same code runs with the mode on, so that the attention inside it is seen and its kernel stays.

    The function asks at its start whether it is overridden; its copy is told that it is not.
    """
    assert isinstance(func, FunctionType)
    inner = FunctionType(
        func.__code__,
        {**func.__globals__, "has_torch_function": lambda *_: False},
        func.__name__,
        func.__defaults__,
        func.__closure__,
    )
    inner.__kwdefaults__ = func.__kwdefaults__
    mode.heads.append(kwargs.get("num_heads", args[4] if len(args) > 4 else 1))
    try:
        with mode:
            return mode.run(lambda: inner(*args, **kwargs))
    finally:
        mode.heads.pop()


def read_layer(mode: RecordingMode, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch._transformer_encoder_layer_fwd: queries and keys are projected again from what it was given."""
    given = _named(
        args,
        kwargs,
        (
            "src",
            "embed_dim",
            "num_heads",
            "qkv_weight",
            "qkv_bias",
            "proj_weight",
            "proj_bias",
            "use_gelu",
            "norm_first",
            "eps",
            "norm_weight_1",
            "norm_bias_1",
            "norm_weight_2",
            "norm_bias_2",
            "ffn_weight_1",
            "ffn_bias_1",
            "ffn_weight_2",
            "ffn_bias_2",
            "mask",
            "mask_type",
        ),
    )
    x, lengths = _padded(given["src"])
    if given["norm_first"]:
        x = F.layer_norm(x, (given["embed_dim"],), given["norm_weight_1"], given["norm_bias_1"], given["eps"])
    call = _call(x, x, x, given, lengths)
    inside = getattr(innermost_module(), "self_attn", None)
    with nullcontext() if inside is None else as_if_in(inside):  # the site is the same on both paths
        return _whole(mode, call, "torch._transformer_encoder_layer_fwd")


def read_native(mode: RecordingMode, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch._native_multi_head_attention."""
    given = _named(
        args,
        kwargs,
        (
            "query",
            "key",
            "value",
            "embed_dim",
            "num_heads",
            "qkv_weight",
            "qkv_bias",
            "proj_weight",
            "proj_bias",
            "mask",
            "need_weights",
            "average_attn_weights",
            "mask_type",
        ),
    )
    (query, lengths), (key, _), (value, _) = (_padded(given[name]) for name in ("query", "key", "value"))
    call = _call(query, key, value, given, lengths)
    return _whole(mode, call, "torch._native_multi_head_attention")


def _whole(mode: RecordingMode, call: ScoredCall, name: str) -> Any:
    """An operator that does more than attention: its weights cannot be replaced."""

    def refuse(out: Tensor) -> Any:
        raise RuntimeError(f"{name} does attention and more in one operator, so its weights cannot be replaced.")

    call.give = refuse
    return mode.dispatch(call, mode.run)


def _call(query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any], lengths: Tensor | None) -> ScoredCall:
    heads = given["num_heads"]
    weights, biases = given["qkv_weight"].chunk(3), given["qkv_bias"].chunk(3)
    with torch.no_grad():
        q, k, v = (
            F.linear(x, w, b).unflatten(-1, (heads, -1)).transpose(-2, -3)
            for x, w, b in zip((query, key, value), weights, biases, strict=True)
        )
    mask, kind = given.get("mask"), given.get("mask_type")
    if mask is not None:  # True closes; type 1 closes keys (batch, m), type 0 pairs (n, m), type 2 both
        mask = mask.bool().logical_not()
        mask = mask[:, None, None, :] if kind == 1 else mask
    call = read_call(q, k, v, mask, kernel="fast path")
    call.over = call.over & (Full() if lengths is None else Padding(lengths))
    return call


def _padded(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """A nested tensor as a padded one and its lengths."""
    if not x.is_nested:
        return x, None
    lengths = torch.tensor([part.shape[0] for part in x.unbind()], device=x.device)
    return torch.nested.to_padded_tensor(x, 0.0), lengths


def _named(args: tuple[Any, ...], kwargs: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return dict(zip(names, args, strict=False)) | kwargs


readers[F.multi_head_attention_forward] = read_python
readers[encoder_layer] = read_layer
readers[native_multi_head_attention] = read_native
