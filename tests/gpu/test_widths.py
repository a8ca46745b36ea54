"""Heads and values of every two widths, in processes of their own: a memory fault takes no other test along.

A batch of cases runs in one process, since one is slow to start; where it ends early, what is left runs case by case,
so that a fault is told of the case that has it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]

CASES = Path(__file__).with_name("width_cases.py")
WIDTHS = (8, 16, 24, 32, 40, 64, 80, 96, 128, 160, 256)
ALIGNMENTS = ("softmax", "sparsemax", "sigmoid", "entmax15", "entmax 1.3")
FAULTY = "import ctypes, json, sys; [case] = json.load(sys.stdin); ctypes.string_at(0)"


def batch(d: int, dtype: str) -> list[list[object]]:
    """Heads of one width beside values of all: softmax, and in turn each of the others."""
    cases = []
    for turn, d_v in enumerate(WIDTHS):
        other = ALIGNMENTS[1 + (turn + WIDTHS.index(d)) % (len(ALIGNMENTS) - 1)]
        cases += [["scaled_dot", align, d, d_v, dtype] for align in ("softmax", other)]
    return cases


def ran(cases: list[list[object]], *program: object) -> tuple[dict[int, dict[str, list[float]]], str]:
    """What each case lost, as far as the process came, and how it ended: nothing where it ended well."""
    given = json.dumps(cases)
    done = subprocess.run([sys.executable, *map(str, program)], input=given, capture_output=True, text=True)
    found = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    return found, "" if done.returncode == 0 else f"ended with {done.returncode}: {done.stderr.strip()[-300:]}"


def broken(cases: list[list[object]], *program: object) -> dict[str, object]:
    """What is wrong, by case: numbers that are too far from the truth, or how its process ended."""
    found, end = ran(cases, *program)
    wrong: dict[str, object] = {}
    for number, case in enumerate(cases):
        how = ""
        lost = found.get(number)
        if lost is None:
            alone, how = ran([case], *program) if len(cases) > 1 else ({}, end)
            lost = alone.get(0, {})
        far = {name: pair for name, pair in lost.items() if not pair[0] <= pair[1]}  # NaN is far too
        if how or far or not lost:
            wrong[" ".join(map(str, case))] = how or far or "no answer"
    return wrong


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("d", WIDTHS)
def test_heads_beside_values_of_every_width(d, dtype):
    assert broken(batch(d, dtype), CASES) == {}


def test_a_process_that_dies_is_told_of_its_case():
    wrong = broken([["scaled_dot", "softmax", 8, 8, "float32"]], "-c", FAULTY)
    assert "ended with" in str(wrong["scaled_dot softmax 8 8 float32"])
