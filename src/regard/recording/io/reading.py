"""The record file, read with numpy alone; nothing in it is trusted before it is checked.

A record is one safetensors file: 8 bytes with the length of a JSON header, the header, the bytes of all tensors. What
the tensors mean stands as JSON text in the header's `__metadata__`, under "regard". So any safetensors reader opens it,
one rename replaces it whole, its tensors are mapped into memory where they lie, and there are no paths in it to escape
through. This file imports nothing of Regard: it can be copied and used without torch.

Reading costs time and memory in proportion to the file. The header is parsed tensor by tensor, each checked before the
next; the description is scanned for its depth and its number of values before an object is made of it.
"""

import json
import math
import os
import re
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

VERSION = 1
HEADER_LIMIT = 100_000_000  # bytes of JSON; safetensors itself has the same limit
TENSOR_LIMIT = 1_000_000
ENTRY_LIMIT = 1000  # characters that describe one tensor
VALUE_LIMIT = 8_000_000  # values and names of a description: at most 200 bytes of memory each
NESTING = 16  # records nest 6 deep
STEP = 1 << 16  # values between two looks at whether to go on
TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "U8": "|u1",
    "BOOL": "|b1",
}

STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# One tensor of the header, as `"name": {...}` and what follows it; what is described here has no objects within.
ENTRY = re.compile(
    rf"[ \t\r\n]*+({STRING})[ \t\r\n]*+:[ \t\r\n]*+(\{{(?>[^{{}}\"]++|{STRING})*+\}})[ \t\r\n]*+([,}}])", re.DOTALL
)
# The next mark outside a string that opens, closes, or goes on to a further value.
MARK = re.compile(rf"(?>[^\[\]{{}},:\"]++|{STRING})*+([\[\]{{}},:\"])", re.DOTALL)
SURROGATE = re.compile(r"[\ud800-\udfff]")


class BadRecord(ValueError):
    """A file that is no record, or not a whole one; the message says what is wrong with it."""


class RecordFile:
    """A record file, mapped into memory: `about` is its description, `array(name)` a tensor without a copy.

    bfloat16, which numpy does not know, comes as float32 (a copy); `stored(name)` has its bits as uint16.
    """

    what = "record"  # files of this form that hold something else say so

    def __init__(self, path: "str | os.PathLike[str]", go_on: "Callable[[], None]" = lambda: None):
        """go_on() is called every now and then while the file is read, and stops it by raising."""
        self.path, self.go_on = Path(path), go_on
        if self.path.is_dir():
            self._refuse(f"it is a folder; a {self.what} is one file")
        found = self.path.stat()
        size = found.st_size
        if not stat.S_ISREG(found.st_mode):
            self._refuse(f"it is a device or a pipe; a {self.what} is an ordinary file")
        with self.path.open("rb") as file:
            first = file.read(8)
            if first[:2] == b"PK":
                self._refuse("it is a zip archive")
            if first.lstrip()[:1] == b"<":
                self._refuse(f"it is a page (HTML or XML), which a browser opens; a {self.what} is another file")
            if len(first) < 8:
                self._refuse(f"it has {len(first)} bytes: it is empty or was cut off")
            (length,) = struct.unpack("<Q", first)
            if length > HEADER_LIMIT:
                self._refuse(f"its header claims {length} bytes, more than {HEADER_LIMIT}")
            if 8 + length > size:
                self._refuse(f"its header ends at byte {8 + length} of {size}: it was cut off")
            raw = file.read(length)
        self.bytes = size
        self.data_start = 8 + length
        self._decoder = json.JSONDecoder(object_pairs_hook=_named_once, parse_constant=_no_number)
        self.entries, text = self._header(raw, size - self.data_start)
        if text is None:
            self._refuse(f"it is a safetensors file without a {self.what} in it")
        self._check_places(size - self.data_start)
        self.about = self._described(text)
        self._raw = np.memmap(self.path, np.uint8, "c") if size > self.data_start else np.zeros(size, np.uint8)
        self._made: dict[tuple[Any, ...], Any] = {}

    def _refuse(self, why: str) -> NoReturn:
        raise BadRecord(f"{self.path} cannot be read as a {self.what}: {why}.")

    def _header(self, raw: bytes, room: int) -> tuple[dict[str, dict[str, Any]], "str | None"]:
        """Tensors by name, each checked before the next is read, and the description, which is still text."""
        try:
            text = raw.decode("utf-8")
        except ValueError as problem:
            self._unreadable("header", problem)
        begun = re.match(r"\s*\{\s*(\}?)", text)
        if begun is None:
            self._refuse("its header is not a JSON object")
        entries: dict[str, dict[str, Any]] = {}
        about, seen, at, more = None, False, begun.end(), not begun[1]
        while more:
            found = ENTRY.match(text, at)
            if found is None:
                self._unreadable("header", f"character {at}: expected a name and the object that describes a tensor")
            name, at, more = self._parsed(found[1], "header"), found.end(), found[3] == ","
            if name in entries or (seen and name == "__metadata__"):
                self._unreadable("header", f"the name {name[:80]!r} stands twice")
            if name == "__metadata__":
                seen, notes = True, self._parsed(found[2], "header")
                about = notes.get("regard")
                continue
            if found.end(2) - found.start(2) > ENTRY_LIMIT:
                self._refuse(f"tensor {name[:80]!r} is described by more than {ENTRY_LIMIT} characters")
            if len(entries) == TENSOR_LIMIT:
                self._refuse(f"it claims more than {TENSOR_LIMIT} tensors")
            entries[name] = self._checked(name, self._parsed(found[2], "header"), room)
            if len(entries) % STEP == 0:
                self.go_on()
        if text[at:].strip():
            self._unreadable("header", f"character {at}: nothing is expected after its end")
        return entries, about if isinstance(about, str) else None

    def _parsed(self, text: str, what: str) -> Any:
        try:
            return self._decoder.decode(text)
        except (ValueError, RecursionError) as problem:
            self._unreadable(what, problem)

    def _unreadable(self, what: str, why: object) -> NoReturn:
        self._refuse(f"its {what} is not readable JSON ({str(why)[:160]})")

    def _checked(self, name: str, entry: dict[str, Any], room: int) -> dict[str, Any]:
        """A tensor has a known type, a shape that fits its bytes, and a place within the file."""
        who = f"tensor {name[:80]!r}"
        if set(entry) != {"dtype", "shape", "data_offsets"}:
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
        return entry

    def _check_places(self, room: int) -> None:
        """Every tensor has a place of its own, and all of them together are what follows the header."""
        at = 0
        for start, end, name in sorted((*entry["data_offsets"], name) for name, entry in self.entries.items()):
            if start != at:
                self._refuse(
                    f"tensor {name[:80]!r} starts at byte {start}, expected {at}: tensors overlap or leave holes"
                )
            at = end
        if at != room:
            self._refuse(f"it has {room - at} bytes after its last tensor")

    def _described(self, text: str) -> dict[str, Any]:
        count, depth = count_values(text, self.go_on)
        if depth > NESTING:
            self._refuse(f"its description nests deeper than {NESTING}")
        if count > VALUE_LIMIT:
            self._refuse(f"its description has more than {VALUE_LIMIT} values")
        about = self._parsed(text, "description")
        if SURROGATE.search(text) or re.search(r"\\u[dD][89a-fA-F]", text):
            about = self._well_formed(about)
        if not isinstance(about, dict) or about.get("format") != f"regard {self.what}":
            self._refuse(f"its description is not that of a {self.what}")
        version = about.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            self._refuse(f"its version is {str(version)[:40]!r}")
        if version > VERSION:
            self._refuse(f"it has version {version} and this Regard reads up to {VERSION}: pip install -U regard")
        return about

    def _well_formed(self, value: Any) -> Any:
        """Strings without halves of surrogate pairs, which no encoding of Unicode can write: each becomes U+FFFD."""
        if isinstance(value, str):
            return SURROGATE.sub("\ufffd", value)
        if isinstance(value, list):
            return [self._well_formed(x) for x in value]
        if isinstance(value, dict):
            made = {self._well_formed(name): self._well_formed(x) for name, x in value.items()}
            if len(made) != len(value):
                self._unreadable("description", "names that differ in halves of surrogate pairs alone")
            return made
        return value

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._entry(name)["shape"])

    def stored(self, name: str) -> np.ndarray:
        """A tensor as it lies in the file; bfloat16 as uint16."""
        entry = self._entry(name)
        start, end = (self.data_start + place for place in entry["data_offsets"])
        return self._raw[start:end].view(TYPES[entry["dtype"]]).reshape(entry["shape"])

    def made_once(self, key: tuple[Any, ...], make: "Callable[[], Any]") -> Any:
        """What is made of a tensor, kept: however many forms name the tensor, it takes its memory once."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

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


def count_values(text: str, go_on: Callable[[], None] = lambda: None) -> tuple[int, int]:
    """How many marks open, separate or name the values of a JSON text, and how deep it nests; up to the limits.

    There are at most twice as many values and names. Whether it is JSON at all is for the parser to say.
    """
    count = depth = deepest = 0
    for found in MARK.finditer(text):
        mark = found[1]
        if mark in "]}":
            depth -= 1
            continue
        if mark in "[{":
            depth += 1
            deepest = max(deepest, depth)
        count += 1
        if deepest > NESTING or count > VALUE_LIMIT or mark == '"':  # a quote here is a string without an end
            break
        if count % STEP == 0:
            go_on()
    return count, deepest


def _named_once(found: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(found)
    if len(made) != len(found):
        seen: set[str] = set()
        for name, _ in found:
            if name in seen:
                raise ValueError(f"the name {name[:80]!r} stands twice")
            seen.add(name)
    return made


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
