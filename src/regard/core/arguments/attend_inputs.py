"""Validation of the arguments of `attend`: q, k and v against each other, reshaped to four axes."""

from typing import Any

import torch
from torch import Tensor

from ..errors import as_tensor_hint
from ..lowering.philox import check_seed
from ..scores import Score
from ..structures import Structure
from .checks import flag, probability

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def canonical(x: Tensor) -> Tensor:
    """(batch, heads, length, width), whatever leading axes it came with."""
    if x.ndim == 4:
        return x
    if x.ndim == 2:
        return x[None, None]
    return x[None] if x.ndim == 3 else x.flatten(0, x.ndim - 4)


def check_call(q: Any, k: Any, v: Any, dropout: Any, sample: Any, seed: Any) -> None:
    """Checks all arguments of attend except score, alignment and structure, which check themselves."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor):
            hint = as_tensor_hint(name, x)
            raise TypeError(f"{name} is a {type(x).__name__}, expected a tensor (..., heads, length, width){hint}.")
    if q.ndim < 2 or k.ndim != q.ndim or v.ndim != q.ndim:
        raise ValueError(
            f"q, k and v have {q.ndim}, {k.ndim} and {v.ndim} axes, expected the same number, 2 or more: "
            "(..., heads, length, width), or (length, width) for one head."
        )
    if q.dtype not in DTYPES or q.dtype != k.dtype or q.dtype != v.dtype:
        raise TypeError(
            f"q, k and v are {q.dtype}, {k.dtype} and {v.dtype}, expected one type among float64, float32, "
            "float16 and bfloat16: convert with .float() or .to(q.dtype)."
        )
    if q.device != k.device or q.device != v.device:
        raise ValueError(f"q, k and v are on {q.device}, {k.device} and {v.device}, expected one device.")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k has {k.shape[-2]} rows and v has {v.shape[-2]}: each key needs one value.")
    if q.ndim > 2:
        if q.shape[:-3] != k.shape[:-3] or q.shape[:-3] != v.shape[:-3]:
            raise ValueError(
                f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} differ in their batch "
                "axes (all but the last three)."
            )
        heads = q.shape[-3]
        if k.shape[-3] != v.shape[-3] or k.shape[-3] == 0 or heads % k.shape[-3]:
            raise ValueError(
                f"q has {heads} heads, k {k.shape[-3]} and v {v.shape[-3]}: expected the same number, or "
                "k and v alike with a number that divides q's (grouped queries)."
            )
    probability(dropout, "attend", "dropout")
    flag(sample, "attend", "sample")
    check_seed(seed)


def check_features(score: Score, q: Tensor, v: Tensor) -> None:
    features = score.feature_count(q)
    if features is not None and features != v.shape[-1]:
        raise ValueError(
            f"{type(score).__name__} gives each feature of the values a weight of its own, but it has "
            f"{features} features and v has width {v.shape[-1]}: both must be the same."
        )


def check_devices(over: Structure, device: torch.device) -> None:
    for part in over.parts():
        for name, value in part.fields_of():
            if isinstance(value, Tensor) and value.device != device:
                raise ValueError(
                    f"{type(part).__name__}({name}) is on {value.device}, but q is on {device}: move it "
                    f"with .to({str(device)!r})."
                )
