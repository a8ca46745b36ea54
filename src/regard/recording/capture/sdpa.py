"""scaled_dot_product_attention under any name, and the kernels behind it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.autocast import as_autocast

from .calls import read_call
from .function_mode import RecordingMode, function_name, named_readers, operators_alone, readers


def read(mode: RecordingMode, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    call = _call(*args, **kwargs)
    return mode.dispatch(call, mode.run)


def _call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    q, k, v, mask = as_autocast(query, key, value, attn_mask)
    return read_call(q, k, v, mask, is_causal, scale)


def read_kernel(mode: RecordingMode, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """aten::_scaled_dot_product_*: the output is the first of several; arguments differ by name alone."""
    name = function_name(func)
    schema = (func if hasattr(func, "_schema") else getattr(func, func.overloads()[0]))._schema  # type: ignore[attr-defined]
    given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs
    mask = given.get("attn_bias", given.get("attn_mask"))
    call = read_call(
        given["query"],
        given["key"],
        given["value"],
        mask,
        bool(given.get("is_causal", False)),
        given.get("scale"),
        kernel=name,
    )
    out = mode.dispatch(call, lambda: mode.run()[0])
    with torch.no_grad():  # where other weights were put in, the statistics that follow the output are the kernel's
        return (out, *mode.run()[1:])


readers[F.scaled_dot_product_attention] = read
named_readers["aten::scaled_dot_product_attention"] = read
operators_alone.add(F.scaled_dot_product_attention)
for _kernel in (
    "flash_attention",
    "flash_attention_for_cpu",
    "efficient_attention",
    "cudnn_attention",
    "attention_math",
):
    named_readers[f"aten::_scaled_dot_product_{_kernel}"] = read_kernel
