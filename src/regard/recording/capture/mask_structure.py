"""Attention masks as structures: most n x m masks are causal, a sliding window or padding.

A mask is looked at in bands of rows. What is none of these is a bias: a record keeps a copy of it, and layers whose
masks have equal numbers share one. Numbers are compared, and not versions, which a change through `.data` or a NumPy
alias leaves as they are.
"""

import math

import torch
from torch import Tensor

from regard.core.caches.tensor_cache import cached_by_tensor
from regard.core.structures import Causal, Full, Mask, Structure, Window

LOW = -1e4  # an additive mask this low is meant to close a pair
RECENT = 8  # copies of masks that later calls may share
VANISHED = {torch.float64: -746.0}  # exp of less is 0
VANISHED_FP32 = -104.0  # kernels of 16 bits, too, have their exponentials in fp32


recent_copies: list[Tensor] = []  # emptied at the end of a block, when only maps hold them


@torch.no_grad()
def shared_copy(mask: Tensor) -> Tensor:
    """Its numbers, in a tensor that nobody writes into: one for all masks of a block that have the same numbers.

    Axes along which it was expanded are copied once.
    """
    narrow = mask.detach()[tuple(slice(0, 1 if step == 0 else None) for step in mask.stride())]
    alike = (x for x in list(recent_copies) if x.shape == narrow.shape and x.dtype == narrow.dtype)
    found = next((x for x in alike if x.device == narrow.device and torch.equal(x, narrow)), None)
    if found is None:
        with torch.inference_mode(False):
            found = torch.empty_like(narrow, memory_format=torch.contiguous_format).copy_(narrow)
        recent_copies.append(found)
        del recent_copies[:-RECENT]
    return found if found.shape == mask.shape else found.expand(mask.shape)


def read_mask(
    mask: Tensor | None,
    causal: bool,
    q: Tensor,
    k: Tensor,
    scale: float | None = None,
    lead: "tuple[int, ...] | None" = None,
) -> tuple[Structure, Tensor | None]:
    """The structure, and a bias (B or 1, H or 1, n or 1, m) where the mask adds numbers to the scores.

    A number of the mask closes a pair only where its weight is 0 in the kernel's own arithmetic: beside scores of 1e5,
    -1e4 closes nothing; nor does any number where it stands in the whole row.

    lead   the axes before (n, m) that the kernel broadcasts a mask to, where they are more than (batch, heads)
    """
    n, m = q.shape[-2], k.shape[-2]
    over: Structure = Causal("start") if causal else Full()
    if mask is None:
        return over, None
    if lead is not None and len(lead) > 2 and mask.ndim > 3:  # several axes of a batch become one
        mask = mask.expand(*lead[:-1], *mask.shape[-3:]).flatten(0, -4)
    if mask.ndim == 3:  # a batch without heads, as the queries have them
        mask = mask[:, None] if q.shape[1] == 1 else mask[None]
    mask = mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))
    own = shared_copy(mask)
    if mask.dtype != torch.bool:
        highest = cached_by_tensor((own,), "closes pairs alone", lambda: _highest_closed(own))
        if highest is None or not (highest == -math.inf or highest <= closing(q, k, scale)):
            return over, mask.to(q.device) if mask.is_floating_point() else mask.to(q.dtype)
    return over & cached_by_tensor((own,), ("structure", n, m), lambda: _structure(own, n, m)), None


def _bands(mask: Tensor) -> "list[slice]":
    rows = mask.shape[-2]
    step = max(1, rows // 16)
    return [slice(start, min(rows, start + step)) for start in range(0, rows, step)]


def _open(mask: Tensor, rows: slice) -> Tensor:
    part = mask[..., rows, :]
    return part if part.dtype == torch.bool else part > LOW


def closing(q: Tensor, k: Tensor, scale: float | None = None) -> float:
    """What added to a score makes its weight 0 beside any pair of its row that is left as it is; LOW at most.

    Two scores differ by 2 scale max |q_i| max |k_j| at most. NaN, which closes nothing, where that is no number.
    """
    vanished = VANISHED.get(q.dtype, VANISHED_FP32)
    if not q.numel() or not k.numel():
        return min(LOW, vanished)
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    longest = [torch.linalg.vector_norm(x.detach(), dim=-1, dtype=wide).amax().double() for x in (q, k)]
    most = float(longest[0] * longest[1]) * abs(q.shape[-1] ** -0.5 if scale is None else scale)
    return min(LOW, vanished - 2 * most) if math.isfinite(most) else math.nan


def _highest_closed(mask: Tensor) -> float | None:
    """The largest of the very low numbers of an additive mask that holds 0 and such numbers only, with something open
    in every row; None of any other mask."""
    if not mask.is_floating_point():
        return None
    highest = -math.inf
    for rows in _bands(mask):
        part = mask[..., rows, :]
        opened = part == 0
        if not bool((opened | (part <= LOW)).all()) or not bool(opened.any(-1).all()):
            return None
        highest = max(highest, float(part.masked_fill(opened, -math.inf).amax()) if part.numel() else -math.inf)
    return highest


def _structure(mask: Tensor, n: int, m: int) -> Structure:
    """The mask in closed form where it has one."""
    keys = torch.zeros_like(_open(mask, slice(0, 1)))
    for rows in _bands(mask):
        keys |= _open(mask, rows).any(-2, keepdim=True)
    some: Structure = Full() if bool(keys.all()) else Mask(keep=keys)
    for shape in _candidates(mask, n, m):
        if all(
            torch.equal(_open(mask, rows), (shape(rows) & keys).expand_as(mask[..., rows, :])) for rows in _bands(mask)
        ):
            return shape.structure & some
    return Mask(keep=mask if mask.dtype == torch.bool else mask > LOW)


class _Shape:
    """Pairs with i + shift - left <= j <= i + shift + right; None is no bound."""

    def __init__(self, structure: Structure, shift: int, left: int | None, right: int | None, m: int, device: object):
        self.structure, self.shift, self.left, self.right = structure, shift, left, right
        self.j = torch.arange(m, device=device)  # type: ignore[call-overload]

    def __call__(self, rows: slice) -> Tensor:
        i = torch.arange(rows.start, rows.stop, device=self.j.device)[:, None] + self.shift
        keep = torch.ones_like(i, dtype=torch.bool)
        if self.left is not None:
            keep = keep & (self.j >= i - self.left)
        if self.right is not None:
            keep = keep & (self.j <= i + self.right)
        return keep


def _candidates(mask: Tensor, n: int, m: int) -> "list[_Shape]":
    device = mask.device
    found = [_Shape(Full(), 0, None, None, m, device)]
    if mask.shape[-2] != n or n == 1:
        return found
    aligned = [("end", m - n)] + ([("start", 0)] if n != m else [])
    for align, shift in aligned:
        found.append(_Shape(Causal(align), shift, None, 0, m, device))
        left, right = _reach(mask, n, shift)
        found.append(_Shape(Causal(align) & Window(left, m, align=align), shift, left, 0, m, device))
        found.append(_Shape(Window(left, right, align=align), shift, left, right, m, device))
    return found


def _reach(mask: Tensor, n: int, shift: int) -> tuple[int, int]:
    """How far the last row looks back and the first row looks ahead."""
    last, first = (_open(mask, slice(i, i + 1))[0, 0, 0].nonzero()[:, 0] for i in (n - 1, 0))
    left = n - 1 + shift - int(last.min()) if last.numel() else 0
    right = int(first.max()) - shift if first.numel() else 0
    return max(0, left), max(0, right)
