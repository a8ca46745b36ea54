"""Input images of a vision model: pixels, patch grid, boxes and fixations."""

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap
from regard.recording.labels import Labels

from .arrays import Blobs

LONGEST = 1600  # maximum pixels a side; larger images are downsampled by an integer factor
MARKS = 1000  # maximum number of boxes, or of fixations
NAME = 80
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Picture:
    """An image, and the mapping of a map's tokens to its patches.

    pixels     (height, width), (height, width, 3) or (3, height, width): uint8, or floats. Floats in [0, 1] are
               shown as they are, others scaled from minimum to maximum unless mean= and std= undo a normalisation
    grid       (rows, columns) of patches; tokens are in row-major order
    skip       the number of tokens before the patches ([CLS], registers)
    patch      (height, width) of a patch in pixels, or one number for both; pixels at the right and bottom that no
               patch covers are shown as unused. By default the patches cover the whole image
    boxes      (left, upper, right, lower) or (left, upper, right, lower, "name") in pixels
    fixations  (x, y) or (x, y, seconds) in pixels, in temporal order

        amap.save_html("m.html", image=Picture(pixels, grid=(14, 14), skip=1, boxes=[(40, 30, 120, 160, "dog")]))
    """

    pixels: Any
    grid: tuple[int, int] | None = None
    skip: int | None = None
    patch: "int | tuple[int, int] | None" = None
    boxes: Sequence[Sequence[Any]] = ()
    fixations: Sequence[Sequence[float]] = ()
    mean: "float | Sequence[float] | None" = None
    std: "float | Sequence[float] | None" = None

    def fitted(self, lengths: Iterable[int]) -> "Picture":
        """With its patch grid, inferred from the number of tokens if not given: square patches."""
        height, width = _upright(self.pixels).shape[:2]
        lengths = list(lengths)
        if self.grid is None:
            found = self._infer(height, width, lengths)
            if found is None:
                have = ", ".join(map(str, sorted(lengths)))
                raise ValueError(
                    f"Picture: no patch size, or more than one, divides {height} x {width} pixels into as many patches "
                    f"as these maps have tokens ({have}): pass Picture(pixels, grid=(rows, columns), "
                    "skip=..., patch=...)."
                )
            return found
        rows, columns = self.grid
        most, skip = max(lengths, default=0), self.skip
        if skip is None:
            skip = max(0, most - rows * columns)
        if rows < 1 or columns < 1 or skip < 0 or skip + rows * columns > most:
            raise ValueError(
                f"Picture(grid={self.grid}, skip={skip}) needs {skip + rows * columns} tokens; these maps "
                f"have at most {most}."
            )
        return replace(self, skip=skip)

    def _infer(self, height: int, width: int, lengths: Sequence[int]) -> "Picture | None":
        """The patch size that divides the image and skips the fewest tokens. A size that does not divide it is accepted
        only if it is the only candidate."""
        skips = range(9) if self.skip is None else (self.skip,)
        found = []
        for side in [self.patch] if isinstance(self.patch, int) else range(1, min(height, width) + 1):
            grid = (height // side, width // side)
            for skip in (length - grid[0] * grid[1] for length in lengths):
                if skip in skips:
                    found.append((height % side > 0 or width % side > 0, skip, side, grid))
        found.sort()
        if not found or (found[0][0] and len(found) > 1 and found[0][:2] == found[1][:2]):
            return None
        _, skip, side, grid = found[0]
        return replace(self, grid=grid, skip=skip, patch=side)

    def about(self, blobs: Blobs) -> dict[str, Any]:
        """JSON description for the page; the pixels as a PNG."""
        assert self.grid is not None and self.skip is not None
        pixels, note = self._shown()
        height, width = pixels.shape[:2]
        rows, columns = self.grid
        if self.patch is None:
            tall, wide = height / rows, width / columns
        else:
            tall, wide = (self.patch, self.patch) if isinstance(self.patch, int) else self.patch
            if tall * rows > height or wide * columns > width or tall <= 0 or wide <= 0:
                raise ValueError(
                    f"Picture(patch={self.patch}): {rows} x {columns} such patches do not fit into "
                    f"{height} x {width} pixels."
                )
        by = -(-max(height, width) // LONGEST)
        return {
            "png": blobs.put(png(_smaller(pixels, by))),
            "width": width,
            "height": height,
            "said": note,
            "grid": [rows, columns],
            "skip": self.skip,
            "patch": [tall, wide],
            "boxes": _marks("boxes", self.boxes, 4),
            "fixations": _marks("fixations", self.fixations, 2),
        }

    def _shown(self) -> tuple[Array, str]:
        """(height, width, 1 or 3) uint8, and a note if values were rescaled."""
        x = _upright(self.pixels)
        if x.dtype == np.uint8:
            return x, ""
        x = x.astype(np.float64)
        note = ""
        if self.mean is not None or self.std is not None:
            x = x * (1.0 if self.std is None else np.asarray(self.std))
            x = x + (0.0 if self.mean is None else np.asarray(self.mean))
        elif x.size and (np.nanmin(x) < 0 or np.nanmax(x) > 1):
            low, high = float(np.nanmin(x)), float(np.nanmax(x))
            x = (x - low) / max(high - low, 1e-12)
            note = f"pixel values {low:.3g} to {high:.3g}, shown from black to white"
        return np.round(255 * np.nan_to_num(x).clip(0, 1)).astype(np.uint8), note


def picture_of(image: Any, maps: Mapping[str, AttentionMap], item: int, labels: Labels | None = None) -> Picture:
    """A Picture from the argument image= of save_html: itself, pixels, or the pixel_values (B, 3, H, W) of a batch.

    The patch grid is that of the record's labels, else inferred from maps with the batch size of the image (models
    with window attention have other maps as well).
    """
    if not isinstance(image, Picture):
        if getattr(image, "ndim", 0) == 4:
            maps = {name: amap for name, amap in maps.items() if len(amap.lead) < 2 or amap.lead[0] == len(image)}
            image = image[item]
        axes = [axis for run in (labels.runs if labels else ()) for side in run.values() for axis in side]
        image = Picture(image, grid=next((axis.grid for axis in axes if axis.grid), None))
    return image.fitted({amap.m for amap in maps.values()})


def _upright(pixels: Any) -> Array:
    if isinstance(pixels, Tensor):
        pixels = pixels.detach().cpu().float() if pixels.is_floating_point() else pixels.cpu()
    x = np.asarray(pixels)
    if x.ndim == 2:
        x = x[..., None]
    if x.ndim == 3 and x.shape[0] in (1, 3) and x.shape[-1] not in (1, 3):
        x = np.moveaxis(x, 0, -1)
    plain = x.dtype == np.uint8 or np.issubdtype(x.dtype, np.floating)
    if x.ndim != 3 or x.shape[-1] not in (1, 3) or not plain or 0 in x.shape:
        raise ValueError(
            f"Picture(pixels) is {x.dtype} {x.shape}, expected uint8 or floats: (height, width), "
            "(height, width, 3) or (3, height, width)."
        )
    return x


def _smaller(x: Array, by: int) -> Array:
    """Downsample by averaging by x by pixels."""
    if by <= 1:
        return x
    height, width = (max(1, side // by) for side in x.shape[:2])
    cut = x[: height * by, : width * by].astype(np.float32)
    return cut.reshape(height, -1, width, cut.shape[1] // width, x.shape[2]).mean((1, 3)).round().astype(np.uint8)


def png(x: Array) -> bytes:
    """(height, width, 1 or 3) uint8 as a PNG, with the smallest of three row filters (none, left, up)."""
    height, width, colours = x.shape
    above = np.diff(x, axis=0, prepend=np.zeros_like(x[:1]))
    beside = np.diff(x, axis=1, prepend=np.zeros_like(x[:, :1]))
    made = []
    for kind, rows in ((0, x), (1, beside), (2, above)):
        lines = np.concatenate([np.full((height, 1), kind, np.uint8), rows.reshape(height, -1)], 1)
        made.append(zlib.compress(lines.tobytes(), 9))
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if colours == 1 else 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", min(made, key=len)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )


def _marks(name: str, marks: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
    """Validated boxes or fixations: `count` finite numbers, and a name or a duration."""
    if len(marks) > MARKS:
        raise ValueError(f"Picture({name}=) has {len(marks)}, at most {MARKS} can be drawn.")
    made = []
    for one in marks:
        head, rest = [float(x) for x in list(one)[:count]], list(one)[count:]
        tail = [str(rest[0])[:NAME]] if rest and name == "boxes" else [float(x) for x in rest[:1]]
        if len(head) != count or len(rest) > 1 or not np.isfinite([*head, *(tail if name != "boxes" else [])]).all():
            wanted = "(left, upper, right, lower[, name])" if name == "boxes" else "(x, y[, seconds])"
            raise ValueError(f"Picture({name}=) has {tuple(one)!r}, expected {wanted} in pixels.")
        if name == "boxes" and (head[0] >= head[2] or head[1] >= head[3]):
            raise ValueError(f"Picture(boxes=) has {tuple(one)!r}: expected left < right and upper < lower.")
        made.append([*head, *tail])
    return made
