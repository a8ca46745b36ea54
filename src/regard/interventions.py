"""What can replace the weights of attention at a site; put in by `regard.intervene`."""

from .recording.interventions.interventions import (
    DropHeads,
    Freeze,
    Here,
    Intervention,
    KnockOut,
    MaskTokens,
    Patch,
    Permute,
    Replace,
    Shift,
    Uniform,
    ZeroValue,
)

__all__ = [
    "DropHeads",
    "Freeze",
    "Here",
    "Intervention",
    "KnockOut",
    "MaskTokens",
    "Patch",
    "Permute",
    "Replace",
    "Shift",
    "Uniform",
    "ZeroValue",
]
