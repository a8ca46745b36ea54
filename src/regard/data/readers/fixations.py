"""Eye fixations on photographs: a folder of images and fixations.csv."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .rows import number, read_rows
from .user_file import existing, wrong

TABLE = "fixations.csv"
NEEDS = ("image", "x", "y")
LARGEST = 2**25  # bytes of an image


@dataclass(frozen=True, eq=False)
class Scene:
    """A photograph with fixations. jpeg: the file's bytes; fixations: for each observer (count, 2) row and column."""

    name: str
    jpeg: bytes
    fixations: tuple[np.ndarray, ...]
    size: tuple[int, int] = (256, 256)

    def pixels(self) -> np.ndarray:
        """(rows, columns, 3): red, green and blue from 0 to 1, by Pillow."""
        from PIL import Image

        with Image.open(io.BytesIO(self.jpeg)) as opened:
            if opened.size != self.size[::-1]:
                raise ValueError(
                    f"The photograph {self.name} is {opened.size[1]} x {opened.size[0]} pixels, expected "
                    f"{self.size[0]} x {self.size[1]}."
                )
            return np.asarray(opened.convert("RGB"), dtype=np.float32) / 255


def read_fixations(folder: "str | Path", side: int = 8) -> list[Scene]:
    """A folder with images and fixations.csv, a row a fixation.

    image      the name of a file in the folder, .jpg or .png
    x, y       the fixated pixel, from the left and from the top, from 0
    observer   optional: id of the observer

    All images have the same size, divisible by `side`, the side of a patch. Pillow opens them.
    """
    folder = existing(folder)
    if not (folder / TABLE).is_file():
        raise wrong(folder, None, f"there is no {TABLE}: expected a folder with images and that table.")
    path = folder / TABLE
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for line, row in read_rows(path, NEEDS):
        name = str(row["image"]).strip()
        if name not in found:
            sizes[name] = _size(folder, name, path, line, side)
        if sizes[name] != next(iter(sizes.values())):
            first = next(iter(sizes))
            raise wrong(
                path,
                line,
                f"{name} is {_said(sizes[name])} pixels and {first} {_said(sizes[first])}: expected one size.",
            )
        column, down = (number(path, line, axis, row[axis]) for axis in ("x", "y"))
        rows, columns = sizes[name]
        if column >= columns or down >= rows:
            raise wrong(
                path, line, f"({row['x']}, {row['y']}) is outside of {name}, which is {_said(sizes[name])} pixels."
            )
        found.setdefault(name, {}).setdefault(str(row.get("observer") or ""), []).append((down, column))
    return [
        Scene(name, (folder / name).read_bytes(), tuple(np.array(one) for one in looks.values()), sizes[name])
        for name, looks in found.items()
    ]


def _size(folder: Path, name: str, path: Path, line: int, side: int) -> tuple[int, int]:
    """(rows, columns) of an image, from its header."""
    from PIL import Image

    if not name or Path(name).name != name or not (folder / name).is_file():
        raise wrong(path, line, f"there is no image {name!r} in {folder}.")
    if (folder / name).stat().st_size > LARGEST:
        raise wrong(path, line, f"{name} has more than {LARGEST:,} bytes: make it smaller.")
    try:
        with Image.open(folder / name, formats=("JPEG", "PNG")) as opened:
            columns, rows = opened.size
    except (OSError, ValueError, Image.DecompressionBombError) as problem:
        raise wrong(path, line, f"{name} is no image in JPEG or PNG ({problem}).") from None
    if rows % side or columns % side or not rows * columns <= 2**22:
        raise wrong(
            path,
            line,
            f"{name} is {_said((rows, columns))} pixels: expected sides divisible by {side}, and at most 4 MP.",
        )
    return rows, columns


def _said(size: tuple[int, int]) -> str:
    return f"{size[1]} x {size[0]}"
