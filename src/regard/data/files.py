"""Locating data files, and reading arrays from untrusted files."""

import gzip
import math
import os
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np

LIMIT = 2**30  # maximum decompressed bytes of a file
PIECE = 1 << 20  # bytes decompressed at a time
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    tokenize.TokenError,  # numpy parses the header of an array as Python
)
WHENCE = "Nothing is downloaded; 'Where the data lie' (docs/train/data.md) says where each file comes from."


class MissingData(FileNotFoundError):
    """A data file is missing."""

    missing_requirement = True  # a study stops at it: retrying cannot help


def data_file(name: str, folder: "str | Path | None" = None) -> Path:
    """The path of a data file in the folder given, or in the one that REGARD_DATA names."""
    root = folder if folder is not None else os.environ.get("REGARD_DATA")
    if not root:
        raise MissingData(
            f"{name} needs the folder of data sets: set REGARD_DATA to the "
            f"folder that contains {name} (in Python also folder=). {WHENCE}"
        )
    path = Path(root) / name
    if not path.is_file():
        where = "folder" if folder is not None else "REGARD_DATA"
        raise MissingData(f"There is no {name} in {where}={str(root)!r}: name the folder that contains it. {WHENCE}")
    return path


def read_arrays(path: Path, names: tuple[str, ...], limit: int = LIMIT) -> dict[str, np.ndarray]:
    """Named arrays of an npz file, without pickle.

    Sizes are checked against the limit before decompression, and no more than the declared bytes are read.
    """
    with path.open("rb") as raw:
        try:
            return _arrays(path, zipfile.ZipFile(raw), names, limit)
        except UNREADABLE as problem:
            raise ValueError(f"{path} is not a readable npz file: {problem}.") from problem


def array_names(path: Path) -> tuple[str, ...]:
    """The names of the arrays in an npz file."""
    try:
        with zipfile.ZipFile(path) as packed:
            found = packed.namelist()
    except UNREADABLE as problem:
        raise ValueError(f"{path} is not a readable npz file: {problem}.") from problem
    return tuple(name.removesuffix(".npy") for name in found if name.endswith(".npy"))


def _arrays(path: Path, packed: zipfile.ZipFile, names: tuple[str, ...], limit: int) -> dict[str, np.ndarray]:
    members = {member.filename: member for member in packed.infolist()}
    missing = [name for name in names if f"{name}.npy" not in members]
    if missing:
        there = ", ".join(sorted(name.removesuffix(".npy") for name in members if name.endswith(".npy")))
        raise ValueError(f"{path} has no array {missing[0]!r}; it has {there or 'none'}.")
    wanted = {name: members[f"{name}.npy"] for name in names}
    size = sum(member.file_size for member in wanted.values())
    if size > limit:
        raise ValueError(f"{path} unpacks to {size} bytes, more than the limit of {limit}.")
    return {name: _array(path, packed, member) for name, member in wanted.items()}


def _array(path: Path, packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One member of an npz file; its header must match its size before anything is decompressed."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{path}: {member.filename} uses a compression that numpy does not write.")
    with packed.open(member) as file:
        try:
            version = np.lib.format.read_magic(file)
            reads = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, transposed, dtype = reads.get(version, np.lib.format.read_array_header_2_0)(file)
        except ValueError as problem:
            raise ValueError(f"{path}: {member.filename} is not an array of numpy ({problem}).") from problem
        if dtype.hasobject:
            raise ValueError(
                f"{path}: {member.filename} contains Python objects, which are refused (allow_pickle=False)."
            )
        size, room = math.prod(shape) * dtype.itemsize, member.file_size - file.tell()
        if size != room or min(shape, default=0) < 0:
            raise ValueError(f"{path}: {member.filename} has {room} bytes for {dtype} {shape}, which needs {size}.")
        raw, at = np.empty(size, np.uint8), 0
        while at < size:
            piece = np.frombuffer(file.read(min(PIECE, size - at)), np.uint8)
            if not len(piece):
                raise EOFError(f"{member.filename} ends {size - at} bytes early")
            raw[at : at + len(piece)] = piece
            at += len(piece)
        file.read(1)  # reads to the end, which verifies the checksum
        whole = raw.view(dtype) if size else np.empty(shape, dtype)
        return whole.reshape(shape, order="F" if transposed else "C")


def read_lines(path: Path, limit: int = LIMIT) -> list[str]:
    """The lines of a text file, optionally gzipped; at most `limit` bytes are decompressed."""
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            found = file.read(limit + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise ValueError(f"{path} cannot be unpacked: {problem}.") from problem
    if len(found) > limit:
        raise ValueError(f"{path} unpacks to more than the limit of {limit} bytes.")
    return found.decode("utf-8").split("\n")[: None if found[-1:] != b"\n" else -1]
