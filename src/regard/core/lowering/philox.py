"""Counter-based random numbers: the same draw for the same (seed, batch, head, row, column) on every backend.

Philox-4x32-10 (Salmon et al. 2011). One call of the generator gives four 32-bit words, which serve four
neighbouring columns: counter = (column // 4, row, head, batch), word = column % 4; on edges
counter = (edge id, 0, head // 4, batch), word = head % 4, and for a row's sink (row, 1, head // 4, batch).
Nothing is stored: any tile can be regenerated from the seed, in any order, on any device (`Tile.uniform`).
"""

from numbers import Integral

import torch
from torch import Tensor

from ..arguments import shown

_M0, _M1 = 0xD2511F53, 0xCD9E8D57  # multipliers
_W0, _W1 = 0x9E3779B9, 0xBB67AE85  # key increments
_MASK = 0xFFFFFFFF


def _multiply(a: int, b: Tensor) -> tuple[Tensor, Tensor]:
    """High and low 32 bits of a product of two unsigned 32-bit numbers held in int64 (wrapping is defined)."""
    product = b * a
    return (product >> 32) & _MASK, product & _MASK


def philox(seed: Tensor, c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ten rounds on counters of any broadcastable shape; seed is a 0-d int64 tensor. Four words in [0, 2^32)."""
    k0, k1 = seed & _MASK, (seed >> 32) & _MASK
    for _ in range(10):
        high0, low0 = _multiply(_M0, c0)
        high1, low1 = _multiply(_M1, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
    return c0, c1, c2, c3


def check_seed(seed: int | Tensor | None) -> None:
    """Checks that a seed fits int64, since Philox takes a 64-bit key."""
    if seed is None or isinstance(seed, torch.SymInt):
        return
    if isinstance(seed, Tensor):
        fits = seed.ndim == 0 and seed.dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    else:
        fits = isinstance(seed, Integral) and not isinstance(seed, bool)
    if not fits:
        raise TypeError(f"seed= got {shown(seed)}, expected an int or a 0-d integer tensor.")
    if not isinstance(seed, Tensor) and not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed= got {seed}, expected a number of 64 bits, -2**63 <= seed < 2**63.")


def as_seed(seed: int | Tensor | None, device: torch.device) -> Tensor:
    """A 0-d int64 tensor: the given seed, or one drawn from torch's generator (so torch.manual_seed governs it)."""
    if isinstance(seed, Tensor):
        return seed.to(device=device, dtype=torch.int64)
    if seed is None:
        return torch.randint(0, 2**62, (), dtype=torch.int64, device=device)
    return torch.full((), int(seed), dtype=torch.int64, device=device)
