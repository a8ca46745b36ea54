"""Files that were damaged or made to harm: a sentence, and time and memory in proportion to the file."""

import copy
import io
import json
import os
import struct
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch.nn import functional as F

import regard
from regard.recording.io import reading
from regard.recording.io.loading import read
from regard.recording.io.reading import BadRecord, RecordFile, count_values
from regard.recording.io.writing import Table, write_whole
from regard.views.terminal.record_summary import print_summary

READER = Path(reading.__file__)
ABOUT = {
    "format": "regard record",
    "version": 1,
    "made": {},
    "model": {},
    "keep": "qk",
    "missed": {},
    "casting": None,
    "labels": {"runs": []},
    "stats": [],
    "gradients": [],
    "maps": [],
}


def put(path: Path, header: str, data: bytes = b"") -> Path:
    raw = header.encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)
    return path


def described(path: Path, about: str) -> Path:
    """A file without tensors and with this description."""
    return put(path, json.dumps({"__metadata__": {"regard": about}}))


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that Python and numpy held at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bound(path: Path) -> int:
    """What reading may take: a list of small numbers takes some 20 times its text."""
    return 40 * path.stat().st_size + 2_000_000


def child(code: str, *arguments: str) -> list[str]:
    """What the reader alone says in a process of its own, whose limits nobody else feels."""
    start = f"import resource, sys\nexec(open({str(READER)!r}).read())\n"
    command = [sys.executable, "-c", start + textwrap.dedent(code), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr or f"ended by signal {-run.returncode}"
    return run.stdout.splitlines()


# time and memory


def test_names_that_stand_twice_are_found_in_one_pass(tmp_path):
    """200,000 names: comparing each with every other would take minutes of the processor, which has one here."""
    names = ",".join(f'"{i:06d}":0' for i in range(200_000))
    path = described(tmp_path / "twice.regard", "{" + names + ',"199999":0}')
    (said,) = child(
        """
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        try:
            RecordFile(sys.argv[1])
        except BadRecord as told:
            print(told)
        """,
        str(path),
    )
    assert "'199999' stands twice" in said


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ('{"a":[' + "[]," * 1_000_000 + "0]}", "expected a name and the object"),
        ('{"a":{"shape":[' + "0," * 1_500_000 + "0]}}", "described by more than"),
        (json.dumps({"__metadata__": {"regard": "[" + "{}," * 1_000_000 + "0]"}}), "more than 1000000 values"),
        (json.dumps({"__metadata__": {"regard": "[" + "[]," * 1_000_000 + "0]"}}), "more than 1000000 values"),
        (json.dumps({"__metadata__": {"regard": "[" * 3_000_000}}), "nests deeper than 16"),
    ],
    ids=["lists for tensors", "a long shape", "objects", "lists", "nested"],
)
def test_counts_and_depth_are_checked_before_anything_is_made_of_them(tmp_path, header, says):
    """3 MB of JSON, which take 60 to 200 as objects; with a lower limit, so that this is quick."""
    path = put(tmp_path / "many.regard", header)
    said, before, after = child(
        """
        VALUE_LIMIT = 1_000_000
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        before = peak()
        try:
            RecordFile(sys.argv[1])
        except BadRecord as told:
            print(told)
        print(before, peak(), sep=chr(10))
        """,
        str(path),
    )
    assert says in said
    assert (int(after) - int(before)) * 1024 < 10 * path.stat().st_size


def test_values_are_counted_as_the_parser_finds_them():
    text = json.dumps({"a": [1, 2, {"b": [], "c,[]{}:": 'x"\\,[['}], "d": {}})
    count, depth = count_values(text)
    assert (count, depth) == (13, 4)
    assert count_values('"no end')[1] == count_values("")[0] == 0


def test_reading_takes_memory_in_proportion_to_the_description(tmp_path):
    for part in ('{"":0},', "[0,1],", '"ab",', '["a"],', "1000,", '{"a":{}},'):
        path = described(tmp_path / "x.regard", "[" + part * (100_000 // len(part)) + "0]")

        def refuse(path=path):
            with pytest.raises(BadRecord, match="not that of a record"):
                RecordFile(path)

        assert peak_of(refuse) < bound(path)


def many_maps(path: Path, about: dict, **tensors: torch.Tensor) -> Path:
    table = Table()
    for name, x in tensors.items():
        table.add(name, x)
    return table.write(path, ABOUT | about)


def test_many_maps_of_one_long_text_hold_its_names_once(tmp_path):
    names = [f"t{i}" for i in range(50_000)]
    form = {"kind": "scored", "q": "q", "k": "k", "tau": "tau", "m": 50_000, "scale": 1.0, "over": []}
    labels = {"runs": [{"source": [{"names": names}]}]}
    path = many_maps(
        tmp_path / "long.regard",
        {"maps": [form | {"site": f"layer.{i}"} for i in range(1000)], "labels": labels},
        q=torch.zeros(0, 1, 50_000, 1),
        k=torch.zeros(0, 1, 50_000, 1),
        tau=torch.zeros(0, 1, 50_000),
    )
    assert peak_of(lambda: regard.load(path)) < bound(path)


def test_many_statistics_and_gradients_of_one_tensor_hold_it_once(tmp_path):
    stats = {"entropy": "w", "mass": "w", "weight": "w", "key": "key"}
    pull = {"pull": "pull", "v": "pull", "over": [{"mask": "mask", "shape": [1, 1, 512, 512]}]}
    path = many_maps(
        tmp_path / "stats.regard",
        {
            "stats": [stats | {"site": f"s{i}"} for i in range(500)],
            "gradients": [pull | {"site": f"g{i}"} for i in range(500)],
        },
        w=torch.zeros(20_000),
        key=torch.zeros(20_000, dtype=torch.int32),
        pull=torch.zeros(1, 1, 512, 1),
        mask=torch.full((1, 1, 512, 64), 255, dtype=torch.uint8),
    )
    held = []
    assert peak_of(lambda: held.append(regard.load(path))) < bound(path)
    (rec,) = held
    assert (
        rec.gradients["g7"].weights().shape == (1, 1, 512, 512) and rec.stats["s3"].strongest.key.dtype == torch.int64
    )


def test_reading_can_be_stopped_while_it_lasts(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "STEP", 2)

    class Enough(Exception):
        pass

    def stops_at(count: int) -> Callable[[], None]:
        left = iter(range(count))

        def go_on() -> None:
            if next(left, None) is None:
                raise Enough

        return go_on

    path = many_maps(tmp_path / "a.regard", {}, a=torch.zeros(2), b=torch.zeros(3), c=torch.zeros(1), d=torch.zeros(1))
    for count in (0, 1, 2, 3):  # in the header, then in the description
        with pytest.raises(Enough):
            read(path, stops_at(count))
    assert read(path, stops_at(1000)).maps._by_site == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="This system has no named pipes.")
def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe.regard")
    with pytest.raises(BadRecord, match="device or a pipe"):
        RecordFile(tmp_path / "pipe.regard")


def test_more_than_a_reader_takes_is_not_written(tmp_path, monkeypatch):
    from regard.recording.io import writing

    monkeypatch.setattr(writing, "VALUE_LIMIT", 10)
    with pytest.raises(ValueError, match="Record fewer sites"):
        Table().write(tmp_path / "x.regard", ABOUT)
    assert os.listdir(tmp_path) == []


# random damage


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> bytes:
    """A record with maps of every kind, statistics, gradients, labels."""
    torch.manual_seed(3)
    whole = regard.Record()
    for keep in ("qk", "weights", "topk", "stats"):
        with regard.record(keep=keep, k=2) as rec:
            q = torch.randn(1, 2, 5, 4)
            F.scaled_dot_product_attention(q, q, q, is_causal=True)
            F.scaled_dot_product_attention(q, q, q, attn_mask=torch.rand(5, 5) > 0.5)
        for name, amap in rec.maps.items():
            whole.maps._by_site[f"{keep}.{name}"] = amap
        whole.stats.update(rec.stats)
    with regard.record(grad=True) as rec:
        q = torch.randn(1, 2, 5, 4, requires_grad=True)
        F.scaled_dot_product_attention(q, q, q).sum().backward()
    whole.gradients.update(rec.gradients)
    layer = regard.nn.GATConv(4, 3, heads=2)
    with regard.record(layer) as rec:
        layer(torch.randn(4, 4), torch.tensor([[0, 1, 2, 3, 3], [1, 0, 0, 1, 2]]))
    for name, amap in rec.maps.items():
        whole.maps._by_site[f"graph.{name}"] = amap
    whole.missed["x: y"] += 2
    whole.label(tokens=list("abcde"))
    return whole.save(tmp_path_factory.mktemp("rich") / "run.regard").read_bytes()


def parts(raw: bytes) -> tuple[dict, dict, bytes]:
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    return header, json.loads(header["__metadata__"]["regard"]), raw[8 + size :]


def together(header: dict, about: str, data: bytes) -> bytes:
    text = json.dumps({**header, "__metadata__": {"regard": about}}).encode()
    return struct.pack("<Q", len(text)) + text + data


def nodes(x, way=()):
    for key in x if isinstance(x, dict) else range(len(x)) if isinstance(x, list) else ():
        yield (*way, key)
        yield from nodes(x[key], (*way, key))


HUGE = [2**24, 2**31, 2**63, 10**40, -1, 1e300, float("inf"), [[[0] * 99] * 9] * 9, "x" * 9999, "\ud800", "\x1b[2J", {},
        [], None, True, 0.5]  # fmt: skip


def flips(raw: bytes, draw: np.random.Generator) -> bytes:
    bad = bytearray(raw)
    for _ in range(draw.integers(1, 9)):
        bad[draw.integers(len(bad))] ^= 1 << draw.integers(8)
    return bytes(bad)


def cuts(raw: bytes, draw: np.random.Generator) -> bytes:
    start, stop = sorted(draw.integers(0, len(raw) + 1, 2))
    return raw[:start] + (raw[stop:] if draw.random() < 0.5 else b"")


def changed(raw: bytes, draw: np.random.Generator) -> bytes:
    """A value of the header or of the description by one that is too large, too deep or of another kind."""
    header, about, data = parts(raw)
    tree = {"header": {name: x for name, x in header.items() if name != "__metadata__"}, "about": about}
    ways = [way for way in nodes(tree) if len(way) > 1]
    way = ways[draw.integers(len(ways))]
    inner = tree
    for step in way[:-1]:
        inner = inner[step]
    inner[way[-1]] = copy.deepcopy(HUGE[draw.integers(len(HUGE))])
    return together(tree["header"], json.dumps(tree["about"]).replace("Infinity", "1e999"), data)


def nested(raw: bytes, draw: np.random.Generator) -> bytes:
    header, about, data = parts(raw)
    text = json.dumps(about)
    place = text.index("[", draw.integers(len(text) - 40))
    deep = int(draw.integers(5, 3000))
    return together(header, text[:place] + "[" * deep + "]" * deep + "," * int(draw.integers(2)) + text[place:], data)


def doubled(raw: bytes, draw: np.random.Generator) -> bytes:
    """A stretch of the JSON, from one comma to another, stands twice."""
    (size,) = struct.unpack("<Q", raw[:8])
    text = raw[8 : 8 + size]
    commas = [place for place, letter in enumerate(text) if letter == ord(",")]
    start, stop = sorted(draw.choice(commas, 2, replace=False))
    text = text[:stop] + text[start:stop] * int(draw.integers(1, 4)) + text[stop:]
    return struct.pack("<Q", len(text)) + text + raw[8 + size :]


@pytest.mark.parametrize("damage", [flips, cuts, changed, nested, doubled])
def test_random_damage_is_refused_in_a_sentence_or_harmless(rich, tmp_path, damage):
    draw, path, refused = np.random.default_rng(1), tmp_path / "bad.regard", 0
    for _ in range(150):
        path.write_bytes(damage(rich, draw))

        def use():
            rec = regard.load(path)
            shown = io.StringIO()
            print_summary(path, Console(file=shown, width=100))
            assert not set(shown.getvalue()) & {"\x1b", "\x07", "\x9b"}
            for amap in (*rec.maps.values(), *rec.gradients.values()):
                if amap.m <= 1000:  # what a row of a longer one takes is for its reader to ask for
                    amap.weights()

        try:
            taken = peak_of(use)
        except BadRecord as told:
            refused += 1
            assert str(path) in str(told)
        else:
            assert taken < bound(path) + 10_000_000  # weights and a table that were drawn
    assert refused


def test_halves_of_surrogate_pairs_are_replaced(tmp_path):
    """No encoding of Unicode has them, so no terminal, page or answer of a server could show them."""
    about = ABOUT | {"model": {"name": "a\ud800b", "\udfff": "\U0001f600"}}
    file = RecordFile(described(tmp_path / "x.regard", json.dumps(about)))
    assert file.about["model"] == {"name": "a\ufffdb", "\ufffd": "\U0001f600"}
    twice = ABOUT | {"model": {chr(0xD800): 1, chr(0xD801): 2}}
    with pytest.raises(BadRecord, match="surrogate"):
        RecordFile(described(tmp_path / "x.regard", json.dumps(twice)))


# who may read what is written


@pytest.fixture
def umask():
    old = os.umask(0o022)
    yield os.umask
    os.umask(old)


@pytest.mark.skipif(os.name != "posix", reason="This system has no permissions by bits.")
@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664), (0o027, 0o640)])
def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path, umask, mask, mode):
    umask(mask)
    path = many_maps(tmp_path / "a.regard", {}, a=torch.zeros(2))
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.name != "posix", reason="This system has no permissions by bits.")
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660])
def test_a_file_that_is_replaced_keeps_its_permissions_from_the_first_byte(tmp_path, umask, mode):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    path.chmod(mode)
    seen = []

    def pieces():
        (draft,) = tmp_path.glob(".a.txt*")
        seen.append(draft.stat().st_mode & 0o777)
        yield b"new"

    write_whole(path, pieces())
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == mode
    assert seen[0] & ~mode == 0, "while it is written, nobody reads it who may not read the old one"
