"""flex_attention: a score function and a mask function of the user's, called on tiles.

Private part: the operator `torch._higher_order_ops.flex_attention` (torch 2.13), which every public way of calling ends
in; the public function itself may be imported under any name and compiled.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.autocast import as_autocast
from regard.core.errors import Refused
from regard.core.lowering.tiles import Tile
from regard.core.scores import Modifier
from regard.core.structures import Structure
from regard.core.torch_private import flex_operator

from .calls import ScoredCall
from .function_mode import RecordingMode, readers

IDENTITY = ("_identity", "noop_mask")


@dataclass(frozen=True, eq=False)
class FlexMask(Structure):
    """The pairs that a mask_mod(b, h, i, j) allows."""

    function: Callable[..., Tensor]

    def allowed(self, tile: Tile) -> Tensor | None:
        keep = self.function(tile.batch, tile.head, tile.query, tile.key)
        return keep if keep.ndim else keep.expand(1, 1, 1)

    def to(self, device: "torch.device | str") -> "FlexMask":
        return self  # its tensors are the user's, where they are


class FlexScore(Modifier):
    """s' = score_mod(s, b, h, i, j)"""

    def __init__(self, function: Callable[..., Tensor]):
        super().__init__()
        self.function = function

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return self.function(s, tile.batch, tile.head, tile.query, tile.key)


def read(mode: RecordingMode, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    names = ("query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options")
    given = dict(zip(names, args, strict=False)) | kwargs
    score_mod, mask_mod = given["score_mod"], given["block_mask"][-1]
    q, k, v = as_autocast(given["query"], given["key"], given["value"])
    call = ScoredCall(q, k, v, float(given["scale"]), kernel="flex_attention")
    if getattr(mask_mod, "__name__", "") not in IDENTITY:
        call.over = FlexMask(mask_mod)
    if getattr(score_mod, "__name__", "") not in IDENTITY:
        call.modifiers = (FlexScore(score_mod),)
    call.sink = _sinks()
    if call.sink is not None:
        call.give = _refuse
    out = mode.dispatch(call, lambda: mode.run()[0])
    with torch.no_grad():  # where other weights were put in, what follows the output stays the kernel's
        return (out, *mode.run()[1:])


def _sinks() -> Tensor | None:
    """Sinks that transformers applies to the output after the kernel, (H,): its function is on the stack."""
    frame = sys._getframe(2)
    for _ in range(40):
        if frame.f_code.co_name == "flex_attention_forward":
            found = frame.f_locals.get("s_aux")
            return found if isinstance(found, Tensor) else None
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def _refuse(out: Tensor) -> Any:
    raise Refused(
        "flex_attention with sinks is scaled after its kernel, so its weights can be recorded and not "
        'replaced: model.set_attn_implementation("eager") runs the model in a form that can.'
    )


readers[flex_operator()] = read
