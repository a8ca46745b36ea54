"""The record file, read with numpy alone; nothing in it is trusted before it is checked.

A record is one safetensors file: 8 bytes with the length of a JSON header, the header, the bytes of all tensors. What
the tensors mean stands as JSON text in the header's `__metadata__`, under "regard". So any safetensors reader opens it,
one rename replaces it whole, its tensors are mapped into memory where they lie, and there are no paths in it to escape
through. This file imports nothing of Regard: it can be copied and used without torch.
"""

import json
import math
import os
import struct
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

VERSION = 1
HEADER_LIMIT = 100_000_000  # bytes of JSON; safetensors itself has the same limit
TENSOR_LIMIT = 1_000_000
NESTING = 16  # records nest 6 deep
TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip


class BadRecord(ValueError):
    """A file that is no record, or not a whole one; the message says what is wrong with it."""


class RecordFile:
    """A record file, mapped into memory: `about` is its description, `array(name)` a tensor without a copy.

    bfloat16, which numpy does not know, comes as float32 (a copy); `stored(name)` has its bits as uint16.
    """

    what = "record"  # files of this form that hold something else say so

    def __init__(self, path: "str | os.PathLike[str]"):
        self.path = Path(path)
        if self.path.is_dir():
            self._refuse(f"it is a folder; a {self.what} is one file")
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            first = file.read(8)
            if first[:2] == b"PK":
                self._refuse("it is a zip archive")
            if len(first) < 8:
                self._refuse(f"it has {len(first)} bytes: it is empty or was cut off")
            (length,) = struct.unpack("<Q", first)
            if length > HEADER_LIMIT:
                self._refuse(f"its header claims {length} bytes, more than {HEADER_LIMIT}")
            if 8 + length > size:
                self._refuse(f"its header ends at byte {8 + length} of {size}: it was cut off")
            header = self._json(file.read(length), "header")
        self.bytes = size
        self.data_start = 8 + length
        if not isinstance(header, dict):
            self._refuse("its header is not a JSON object")
        notes = header.pop("__metadata__", None)
        text = notes.get("regard") if isinstance(notes, dict) else None
        if not isinstance(text, str):
            self._refuse(f"it is a safetensors file without a {self.what} in it")
        self.entries = self._checked(header, size - self.data_start)
        self.about = self._described(text)
        self._raw = np.memmap(self.path, np.uint8, "c") if size > self.data_start else np.zeros(size, np.uint8)

    def _refuse(self, why: str) -> NoReturn:
        raise BadRecord(f"{self.path} cannot be read as a {self.what}: {why}.")

    def _json(self, text: "bytes | str", what: str) -> Any:
        """JSON without repeated names, NaN or deep nesting."""

        def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
            made = dict(found)
            if len(made) != len(found):
                names = [name for name, _ in found]
                twice = next(name for name in names if names.count(name) > 1)
                raise ValueError(f"the name {twice[:80]!r} stands twice")
            return made

        def constant(name: str) -> NoReturn:
            raise ValueError(f"{name} is no number of JSON")

        try:
            if isinstance(text, bytes):
                text = text.decode("utf-8")
            made = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
        except (ValueError, RecursionError) as problem:
            self._refuse(f"its {what} is not readable JSON ({str(problem)[:160]})")
        if _depth(made, NESTING) > NESTING:
            self._refuse(f"its {what} nests deeper than {NESTING}")
        return made

    def _checked(self, header: dict[str, Any], room: int) -> dict[str, dict[str, Any]]:
        """Every tensor has a known type, a shape that fits its bytes, and a place of its own within the file."""
        if len(header) > TENSOR_LIMIT:
            self._refuse(f"it claims {len(header)} tensors, more than {TENSOR_LIMIT}")
        places = []
        for name, entry in header.items():
            who = f"tensor {name[:80]!r}"
            if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
                self._refuse(f"{who} is not described by dtype, shape and data_offsets alone")
            if not isinstance(entry["dtype"], str) or entry["dtype"] not in TYPES:
                self._refuse(f"{who} has the type {str(entry['dtype'])[:40]!r}, expected one of {', '.join(TYPES)}")
            shape, offsets = entry["shape"], entry["data_offsets"]
            if not _whole(shape) or len(shape) > 8:
                self._refuse(f"{who} has the shape {str(shape)[:80]}, expected up to 8 whole numbers")
            count = math.prod(shape)
            if max(shape, default=0) > (2**31 if count else 2**20):
                self._refuse(f"{who} has the shape {shape}: an axis is too long")
            if not _whole(offsets) or len(offsets) != 2:
                self._refuse(f"{who} has the offsets {str(offsets)[:80]}, expected a start and an end")
            start, end = offsets
            if not start <= end <= room:
                self._refuse(f"{who} ends at byte {end} of {room}: the file was cut off, or its offsets are wrong")
            if end - start != count * np.dtype(TYPES[entry["dtype"]]).itemsize:
                self._refuse(f"{who} of shape {shape} and type {entry['dtype']} does not fit its {end - start} bytes")
            places.append((start, end, name))
        at = 0
        for start, end, name in sorted(places):
            if start != at:
                self._refuse(
                    f"tensor {name[:80]!r} starts at byte {start}, expected {at}: tensors overlap or leave holes"
                )
            at = end
        if at != room:
            self._refuse(f"it has {room - at} bytes after its last tensor")
        return header

    def _described(self, text: str) -> dict[str, Any]:
        about = self._json(text, "description")
        if not isinstance(about, dict) or about.get("format") != f"regard {self.what}":
            self._refuse(f"its description is not that of a {self.what}")
        version = about.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            self._refuse(f"its version is {str(version)[:40]!r}")
        if version > VERSION:
            self._refuse(f"it has version {version} and this Regard reads up to {VERSION}: pip install -U regard")
        return about

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._entry(name)["shape"])

    def stored(self, name: str) -> np.ndarray:
        """A tensor as it lies in the file; bfloat16 as uint16."""
        entry = self._entry(name)
        start, end = (self.data_start + place for place in entry["data_offsets"])
        return self._raw[start:end].view(TYPES[entry["dtype"]]).reshape(entry["shape"])

    def array(self, name: str) -> np.ndarray:
        x = self.stored(name)
        return (x.astype("<u4") << 16).view("<f4") if self._entry(name)["dtype"] == "BF16" else x

    def _entry(self, name: str) -> dict[str, Any]:
        entry = self.entries.get(name) if isinstance(name, str) else None
        if entry is None:
            self._refuse(f"it has no tensor {str(name)[:80]!r}, which its description names")
        return entry


def _whole(numbers: Any) -> bool:
    """Whether this is a list of whole numbers of at least 0."""
    return isinstance(numbers, list) and all(type(x) is int and x >= 0 for x in numbers)


def _depth(value: Any, most: int) -> int:
    """How deep lists and objects nest, counted up to one more than `most`."""
    level, depth = [value], 0
    while level and depth <= most:
        inner: list[Any] = []
        for x in level:
            if isinstance(x, dict):
                inner.extend(x.values())
            elif isinstance(x, list):
                inner.extend(x)
        depth += any(isinstance(x, (dict, list)) for x in level)
        level = [x for x in inner if isinstance(x, (dict, list))]
    return depth
