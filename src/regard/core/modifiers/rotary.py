"""Rotary position embedding: a transform of queries and keys, not a score."""

import math

import torch
from torch import Tensor, nn

from ..arguments import SMALLEST, number, shown, whole

STRETCHES = ("linear", "ntk", "yarn")


class Rotary(nn.Module):
    """Rotates queries and keys by their positions, so that dot products depend on relative positions only.

        (x_2c, x_2c+1) at position p is rotated by the angle p / base^(2c / d)

    x (..., n, d) with d even  ->  the same shape. Halves layout (x_c with x_{c + d/2}), as in GPT-NeoX and Llama.

    turned    number of rotated coordinates, from the first; all d unless given (partial RoPE, as in GPT-NeoX)
    stretch   for texts `factor` times as long as those of training: "linear" divides positions by the factor; "ntk"
              raises the base to base factor^(d / (d - 2)); "yarn" divides slow rotations, which make less than one turn
              over `trained` positions, keeps fast ones (more than 32 turns), mixes between, and multiplies the result
              by 0.1 log(factor) + 1
    trained   how many positions the model was trained on; for "yarn"

    Also known as: RoPE, rotary position embedding.
    Su et al. 2021; Chen et al. 2023 (linear); Peng et al. 2024 (YaRN).
    rotary(q, p) . rotary(k, p') = rotary(q, p + s) . rotary(k, p' + s) for every shift s.
    """

    def __init__(
        self,
        d: int,
        base: float = 10000.0,
        *,
        turned: int | None = None,
        stretch: str | None = None,
        factor: float = 1.0,
        trained: int | None = None,
    ):
        super().__init__()
        d, base = whole(d, "Rotary", "d"), number(base, "Rotary", "base", SMALLEST)
        turned = d if turned is None else whole(turned, "Rotary", "turned")
        if turned % 2 or turned > d:
            name = "d" if turned == d else "turned"
            raise ValueError(
                f"Rotary({name}={turned}): expected an even width, since coordinates are rotated in pairs"
                + ("." if turned <= d else f", of at most d={d}.")
            )
        if stretch is not None and (not isinstance(stretch, str) or stretch not in STRETCHES):
            raise ValueError(f"Rotary(stretch={shown(stretch)}): expected None, {', '.join(map(repr, STRETCHES))}.")
        if stretch == "yarn" and trained is None:
            raise ValueError('Rotary(stretch="yarn") needs trained=: how many positions the model was trained on.')
        self.d, self.base, self.turned = d, base, turned
        self.stretch, self.factor = stretch, number(factor, "Rotary", "factor", SMALLEST)
        self.trained = None if trained is None else whole(trained, "Rotary", "trained")

    def frequencies(self, device: "torch.device | None" = None) -> tuple[Tensor, float]:
        """Angle per position of each pair of coordinates, (turned / 2,) in fp64, and a scale of the result.

        Computed at each call: module.bfloat16() would round frequencies in a buffer to 8 bits.
        """
        width, base = self.turned, self.base
        if self.stretch == "ntk" and width > 2:
            base = base * self.factor ** (width / (width - 2))
        place = torch.arange(0, width, 2, device=device, dtype=torch.float64) / width
        frequency = base**-place
        if self.stretch == "linear":
            return frequency / self.factor, 1.0
        if self.stretch == "yarn":
            assert self.trained is not None
            first, last = (self._pair_with(turns) for turns in (32, 1))
            first, last = max(math.floor(first), 0), min(math.ceil(last), width - 1)
            ramp = (torch.arange(width // 2, device=device, dtype=torch.float64) - first) / max(last - first, 0.001)
            kept = 1 - ramp.clamp(0, 1)
            mixed = frequency * kept + frequency / self.factor * (1 - kept)
            return mixed, 0.1 * math.log(self.factor) + 1 if self.factor > 1 else 1.0
        return frequency, 1.0

    def _pair_with(self, turns: int) -> float:
        """Index of the coordinate pair that makes this many turns over the training positions."""
        assert self.trained is not None
        return self.turned * math.log(self.trained / (turns * 2 * math.pi)) / (2 * math.log(self.base))

    def forward(self, x: Tensor, start: "int | Tensor" = 0) -> Tensor:
        """`start` is the position of the first row (the length of a cache), or the position of each row, (..., n)."""
        if x.shape[-1] != self.d:
            raise ValueError(
                f"Rotary was built for width {self.d}, but x has width {x.shape[-1]}: build it for that width."
            )
        frequency, gain = self.frequencies(x.device)
        if isinstance(start, Tensor):
            places = start.to(x.device)
        else:
            places = torch.arange(start, start + x.shape[-2], device=x.device)
        return _turned(x, places[..., None] * frequency, gain, self.turned)

    def extra_repr(self) -> str:
        parts = [f"d={self.d}, base={self.base:g}"]
        parts += [f"turned={self.turned}"] if self.turned != self.d else []
        parts += [f'stretch="{self.stretch}", factor={self.factor:g}'] if self.stretch is not None else []
        return ", ".join(parts)


class GridRotary(nn.Module):
    """2-D RoPE for pixels: half of the coordinates rotate by the row, half by the column.

        pair c of the first half rotates by row / base^(4c / d), pair c of the second by column / base^(4c / d)

    x (..., height width, d) in row-major order, d a multiple of 4  ->  the same shape

    Also known as: 2-D RoPE, axial RoPE.
    Heo et al. 2024. Dot products depend on the relative row and column only.
    """

    def __init__(self, d: int, grid: tuple[int, int], base: float = 100.0):
        super().__init__()
        d, base = whole(d, "GridRotary", "d"), number(base, "GridRotary", "base", SMALLEST)
        if d % 4:
            raise ValueError(f"GridRotary(d={d}): expected a multiple of 4, a pair of coordinates for each axis.")
        if not isinstance(grid, (tuple, list)) or len(grid) != 2:
            raise ValueError(f"GridRotary(grid={shown(grid)}): expected (height, width) in pixels.")
        self.grid = (whole(grid[0], "GridRotary", "grid"), whole(grid[1], "GridRotary", "grid"))
        self.d, self.base = d, base

    def forward(self, x: Tensor) -> Tensor:
        height, width = self.grid
        if x.shape[-2:] != (height * width, self.d):
            raise ValueError(
                f"GridRotary was built for {height} x {width} pixels of width {self.d}, but x is {tuple(x.shape)}."
            )
        frequency = self.base ** (-torch.arange(0, self.d, 4, device=x.device, dtype=torch.float64) / self.d)
        place = torch.arange(height * width, device=x.device)
        rows, columns = x.chunk(2, -1)
        return torch.cat(
            [
                _turned(half, where[:, None] * frequency, 1.0, self.d // 2)
                for half, where in ((rows, place // width), (columns, place % width))
            ],
            -1,
        )

    def extra_repr(self) -> str:
        return f"d={self.d}, grid={self.grid}, base={self.base:g}"


def _turned(x: Tensor, angle: Tensor, gain: float, width: int) -> Tensor:
    """Rotates the first `width` coordinates in pairs by angles (n, width / 2)."""
    cos, sin = (angle.cos() * gain).to(x.dtype), (angle.sin() * gain).to(x.dtype)
    first, second = x[..., :width].chunk(2, dim=-1)
    parts = [first * cos - second * sin, second * cos + first * sin]
    return torch.cat(parts if width == x.shape[-1] else [*parts, x[..., width:]], -1)
