"""Damaged and hostile files, of every format that is read: each is refused in a sentence, or read as a whole."""

import json
import random
import struct
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import regard
from regard.data.readers.arrays import read_npz
from regard.data.readers.graph_file import read_graph
from regard.data.readers.graph_set import read_graphs
from regard.data.readers.pharaoh import read_alignment
from regard.data.readers.text_file import read_texts
from regard.models.training.checkpoint import metadata_of, save_best
from regard.studies import Study

PIECES = (b"[" * 5000, b"{" * 5000, b'"', b"NaN", b"1e999", b"-1", b"9" * 400, b"\0", b"\xff")  # put into a file

STUDY = """
name = "one"
seeds = 3
variants = ["uniform", {score = "additive"}]
[[tasks]]
task = "retrieval"
options = {pairs = 4}
"""


def good_files(folder: Path) -> dict[Path, Callable[[Path], object]]:
    """A whole file of each format, and what reads it."""
    torch.manual_seed(0)
    made: dict[Path, Callable[[Path], object]] = {}
    for keep in ("qk", "weights", "topk", "stats"):
        with regard.record(keep=keep) as rec:
            q = torch.randn(1, 2, 6, 8)
            torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        made[rec.label(tokens=list("abcdef")).save(folder / f"{keep}.regard")] = read_record
    module = torch.nn.Linear(3, 2)
    made[save_best(folder / "best.safetensors", module)] = metadata_of
    edges = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    graph = {"x": np.eye(4, dtype=np.float32), "edge_index": edges, "y": np.array([0, 1, 0, 1])}
    graph |= {f"{part}_mask": np.arange(4) % 3 == place for place, part in enumerate(("train", "val", "test"))}
    np.savez(folder / "graph.npz", **graph)
    made[folder / "graph.npz"] = read_graph
    graphs = {"x": np.ones((8, 2), np.float32), "edge_index": np.array([[0, 2, 4, 6], [1, 3, 5, 7]])}
    np.savez(folder / "graphs.npz", **graphs, ptr=np.array([0, 2, 4, 6, 8]), y=np.array([0, 1, 0, 1]))
    made[folder / "graphs.npz"] = read_graphs
    np.savez_compressed(folder / "packed.npz", x=np.zeros((100, 100)))
    made[folder / "packed.npz"] = read_npz
    (folder / "texts.csv").write_text("text,label,split\n" + "a good film,yes,train\nno,no,test\n" * 4)
    rows = [{"tokens": ["a", "film"], "label": 1, "rationale": [[0, 1]]}, {"text": "bad", "label": 0}]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * 4))
    for name in ("texts.csv", "texts.jsonl"):
        made[folder / name] = read_texts
    (folder / "links.txt").write_text("0-0 1p2 3?4\n\n5-6\n")
    made[folder / "links.txt"] = read_alignment
    (folder / "study.toml").write_text(STUDY)
    made[folder / "study.toml"] = Study.read
    return made


def read_record(path: Path) -> None:
    """Everything that a record has."""
    rec = regard.load(path)
    for amap in rec.maps.values():
        amap.weights()


def damaged(raw: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    """One to four kinds of damage, one after the other."""
    bad = bytearray(raw)
    for _ in range(draw.randint(1, 4)):
        kind, size = draw.randrange(9), max(1, len(bad))
        at, until = sorted((draw.randrange(size), draw.randrange(size)))
        if kind == 0:
            bad[at : at + 1] = bytes([draw.randrange(256)])
        elif kind == 1:
            del bad[at:]
        elif kind == 2:
            del bad[at : min(until, at + 64)]
        elif kind == 3:
            bad[at:at] = draw.randbytes(draw.randint(1, 40))
        elif kind == 4:
            bad[at : at + 8] = struct.pack("<Q", draw.choice((0, 1, 2**31, 2**40, 2**63, 2**64 - 1)))
        elif kind == 5:
            other = draw.choice(others)
            bad[at:] = other[at:]
        elif kind == 6:
            bad[at : at + 1] = draw.choice(
                (b"[" * 5000, b"{" * 5000, b'"', b"NaN", b"1e999", b"-1", b"9" * 400, b"\0", b"\xff")
            )
        elif kind == 7:
            bad[at:until] = bytes(until - at)
        else:
            bad[:8] = struct.pack("<Q", draw.randrange(0, 2 * size))
    return bytes(bad)


def attack(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Damage `count` files; what was refused in a sentence and what was read, and what did anything else."""
    draw, counts, through = random.Random(seed), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as place:
        good = good_files(Path(place))
        whole = {path: path.read_bytes() for path in good}
        for path, read in good.items():
            read(path)  # the whole file is read
        paths = list(good)
        for case in range(count):
            path = paths[case % len(paths)]
            bad = damaged(whole[path], draw, list(whole.values()))
            target = path.with_name("bad" + path.suffix)
            target.write_bytes(bad)
            try:
                good[path](target)
                counts["read"] += 1
            except (ValueError, OSError) as problem:
                sentence = str(problem)
                if len(sentence.split()) < 4:
                    through.append(f"{path.name} case {case}: no sentence: {sentence!r}")
                counts["refused"] += 1
            except Exception as problem:
                counts["other"] += 1
                through.append(f"{path.name} case {case}: {type(problem).__name__}: {str(problem)[:200]}")
            finally:
                target.unlink()
    return counts, through
