"""Where real data lie, and reading arrays from there without trusting them."""

import gzip
import os
import zipfile
import zlib
from pathlib import Path

import numpy as np

LIMIT = 2**30  # bytes that one file may unpack to
WHENCE = "Nothing is downloaded; 'Where the data lie' (docs/train/data.md) says where each file comes from."


class MissingData(FileNotFoundError):
    """A data set is not where it was looked for."""

    wanting = True  # a study stops at it: no other attempt would find it


def data_file(name: str, folder: "str | Path | None" = None) -> Path:
    """The path of a data file in the folder given, or in the one that REGARD_DATA names."""
    root = folder if folder is not None else os.environ.get("REGARD_DATA")
    if not root:
        raise MissingData(f"{name} is looked for in the folder of data sets, and none is named: set REGARD_DATA to the "
                          f"folder in which {name} lies (in Python also folder=). {WHENCE}")  # fmt: skip
    path = Path(root) / name
    if not path.is_file():
        where = "folder" if folder is not None else "REGARD_DATA"
        raise MissingData(f"There is no {name} in {where}={str(root)!r}: name the folder in which it lies. {WHENCE}")
    return path


def read_arrays(path: Path, names: tuple[str, ...], limit: int = LIMIT) -> dict[str, np.ndarray]:
    """Named arrays of an npz file. No pickles; nothing is unpacked before its size is known to be within the limit."""
    try:
        with zipfile.ZipFile(path) as packed:
            wanted = {f"{name}.npy" for name in names}
            size = sum(member.file_size for member in packed.infolist() if member.filename in wanted)
    except zipfile.BadZipFile as problem:
        raise ValueError(f"{path} is not an npz file: {problem}.") from problem
    if size > limit:
        raise ValueError(f"{path} unpacks to {size} bytes, more than the {limit} that are allowed.")
    with np.load(path, allow_pickle=False) as arrays:
        missing = [name for name in names if name not in arrays.files]
        if missing:
            raise ValueError(f"{path} has no array {missing[0]!r}; it has {', '.join(sorted(arrays.files))}.")
        return {name: arrays[name] for name in names}


def read_lines(path: Path, limit: int = LIMIT) -> list[str]:
    """The lines of a text file, packed by gzip or not; nothing beyond the limit is unpacked."""
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            found = file.read(limit + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise ValueError(f"{path} cannot be unpacked: {problem}.") from problem
    if len(found) > limit:
        raise ValueError(f"{path} unpacks to more than the {limit} bytes that are allowed.")
    return found.decode("utf-8").split("\n")[: None if found[-1:] != b"\n" else -1]
