"""What reading a file costs is bounded by its size, for every format: memory in bytes, time in Python steps.

Steps (calls and lines that Python counts) do not depend on the machine. A hostile file of four times the size may take
four times the steps, and a small multiple of its size in memory; quadratic parsing takes sixteen times the steps.
"""

import contextlib
import io
import json
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.data.readers.arrays import read_npz
from regard.data.readers.graph_file import read_graph
from regard.data.readers.graph_set import read_graphs
from regard.data.readers.pharaoh import read_alignment
from regard.data.readers.text_file import read_texts
from regard.models.training.checkpoint import metadata_of
from regard.studies import Study

SMALL, LARGE = 5_000, 20_000  # bytes
MEMORY = 400  # bytes for one of the file: a Python object for each of its values, twice
BASE = 8_000_000  # imports, tables


def safetensors(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def metadata(value: str) -> bytes:
    return safetensors(json.dumps({"__metadata__": {"regard": value}}).encode())


def claimed(size: int) -> bytes:
    """Arrays of 10^12 numbers, as headers of .npy say."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for place in range(size // 400):
            header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }\n"
            raw = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            archive.writestr(f"a{place}.npy", raw)
    return made.getvalue()


def packed(size: int) -> bytes:
    """An array of zeros that unpacks to a thousand times the file."""
    made = io.BytesIO()
    np.savez_compressed(made, x=np.zeros(size * 1000 // 8))
    return made.getvalue()


READERS: dict[str, Callable[[Path], object]] = {
    ".regard": regard.load, ".safetensors": metadata_of, ".npz": read_npz, ".csv": read_texts, ".jsonl": read_texts,
    ".txt": read_alignment, ".toml": Study.read,
}  # fmt: skip
HOSTILE: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "brackets": (".regard", lambda n: metadata("[" * n)),
    "objects within objects": (".regard", lambda n: metadata('{"a":' * (n // 5))),
    "values": (".regard", lambda n: metadata("[" + "1," * (n // 2) + "1]")),
    "a long number": (".regard", lambda n: metadata("9" * n)),
    "an unfinished string": (".regard", lambda n: safetensors(b'{"' + b'\\"' * (n // 2))),
    "tensors without bytes": (
        ".regard",
        lambda n: safetensors(
            json.dumps(
                {str(i): {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(n // 60)}
            ).encode()
        ),
    ),
    "a header that claims more": (".regard", lambda n: struct.pack("<Q", 10**8) + b" " * n),
    "brackets in a checkpoint": (".safetensors", lambda n: metadata("[" * n)),
    "blanks in a header": (".safetensors", lambda n: safetensors(b"{" + b" " * n)),
    "arrays that claim more": (".npz", claimed),
    "quotes": (".csv", lambda n: b"text,label\n" + b'"' * n),
    "commas": (".csv", lambda n: b"text,label\n" + b"," * n),
    "short lines": (".csv", lambda n: b"text,label\n" + b"a,b\n" * (n // 4)),
    "rows of brackets": (".jsonl", lambda n: b"[" * n),
    "one row of many names": (".jsonl", lambda n: b"{" + b",".join(b'"%d":1' % i for i in range(n // 8)) + b"}"),
    "links": (".txt", lambda n: b"0-0 " * (n // 4)),
    "digits": (".txt", lambda n: b"0" * n),
    "tables": (".toml", lambda n: b"\n".join(b"[a%d]" % i for i in range(n // 7))),
    "nested arrays": (".toml", lambda n: b"a = " + b"[" * n),
    "a dotted name": (".toml", lambda n: b"a" + b".a" * (n // 2) + b" = 1"),
}


def cost(read: Callable[[Path], object], path: Path) -> tuple[int, int]:
    """Steps of Python and the peak of memory while a file is read, and refused or not."""
    steps = 0

    def count(*_: object) -> object:
        nonlocal steps
        steps += 1
        return count

    def run() -> None:
        with contextlib.suppress(ValueError, OSError):
            read(path)

    tracemalloc.start()
    try:
        run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    before = sys.gettrace()
    sys.settrace(count)
    try:
        run()
    finally:
        sys.settrace(before)
    return steps, peak


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_costs_steps_and_memory_in_proportion_to_the_file(name, tmp_path):
    ending, make = HOSTILE[name]
    paths = [tmp_path / f"{size}{ending}" for size in (SMALL, LARGE)]
    for path, size in zip(paths, (SMALL, LARGE), strict=True):
        path.write_bytes(make(size))
    cost(READERS[ending], paths[0])  # imports
    (few, _), (many, peak) = (cost(READERS[ending], path) for path in paths)
    assert many <= 5 * few + 2000, (few, many)
    assert peak <= BASE + MEMORY * paths[1].stat().st_size, peak


def test_an_archive_that_unpacks_to_more_than_is_read_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.readers.arrays.LARGEST", 1_000_000)
    path = tmp_path / "bomb.npz"
    path.write_bytes(packed(10_000))
    for read in (read_npz, read_graph, read_graphs):
        with pytest.raises(ValueError, match=r"unpack|more than|larger"):
            read(path)
    assert cost(read_npz, path)[1] < 2_000_000


def test_a_packed_text_is_read_up_to_its_limit_alone(tmp_path):
    import gzip

    from regard.data.readers.user_file import text_lines

    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a" * 20_000_000))
    with pytest.raises(ValueError, match="larger than the limit of 100,000 bytes"):
        text_lines(path, 100_000)
    assert cost(lambda p: text_lines(p, 100_000), path)[1] < 4_000_000
