"""Modifiers in an operator's schema: a text, bounds and tensors; Triton is not imported here."""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.lowering.kernel_forms import ALIBI, CLAMP, DISTANCE_BIAS, GIVEN_BIAS, SOFT_CAP
from regard.core.modifiers import Modifier

FUSED = (SOFT_CAP, CLAMP, ALIBI, DISTANCE_BIAS, GIVEN_BIAS)  # families that have functions of tiles
BENDING = (SOFT_CAP, CLAMP)  # families of functions of a score alone
CLOSING = (DISTANCE_BIAS, GIVEN_BIAS)  # families that may close a pair, by -inf
MAX_HELD = 3  # tensors of modifiers that a call takes, and bounds
LARGEST_BYTES = 1 << 30  # of what programs add up for themselves of a table's gradient
ROWS_AT_ONCE = 64  # that one of these programs takes


class ModifierCode(NamedTuple):
    """One modifier, but for its tensor or bound."""

    family: str
    at_end: bool  # whether the last query stands at the last key
    share: int  # items of the batch that have one bias
    learns: bool  # whether its tensor receives a gradient

    @property
    def holds(self) -> bool:
        return self.family not in BENDING


def encoded(modifiers: tuple[Modifier, ...]) -> tuple[str, list[float], list[Tensor]]:
    """The text of modifiers, "" of none; the bounds and the tensors that they hold."""
    words: list[str] = []
    bounds: list[float] = []
    held: list[Tensor] = []
    for modifier in modifiers:
        form, tensor = modifier.kernel_form(), modifier.kernel_tensor()
        assert form is not None
        learns = tensor is not None and tensor.requires_grad and torch.is_grad_enabled()
        words.append(f"{FUSED.index(form.family)} {int(form.align == 'end')} {form.share} {int(learns)}")
        if tensor is None:
            bounds.append(form.bound)
        else:
            held.append(tensor)
    return ";".join(words), bounds, held


@lru_cache(1024)
def decoded(text: str) -> tuple[ModifierCode, ...]:
    codes = [[int(number) for number in word.split()] for word in text.split(";")] if text else []
    return tuple(ModifierCode(FUSED[family], bool(end), share, bool(learns)) for family, end, share, learns in codes)


def learning(text: str) -> list[bool]:
    """Of each tensor that modifiers hold, whether it receives a gradient; MAX_HELD of them."""
    found = [code.learns for code in decoded(text) if code.holds]
    return found + [False] * (MAX_HELD - len(found))
