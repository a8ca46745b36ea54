"""Kernels on disk are those of the sources beside them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

import regard

FOLDER = Path(regard.__file__).parent / "backends" / "numba_edges"
CALL = """
import numpy as np
from copied.config import KernelConfig, SOFTMAX
from copied.backward import row_dots

real = np.float32
zero, one = real(0), real(1)
config = KernelConfig(1, 0, 0, zero, one, False, False, SOFTMAX, zero, 0, 0, False, False, 0, 0, 0, False, 0, one)
rows, none = np.full((1, 3), 3, real), np.empty((0, 0), real)
stats = np.zeros((1, 2, 1), real)
row_dots(0, 1, rows, rows, np.zeros((1, 1), real), none, none, config, stats)
print(stats[0, 1, 0], sum(row_dots.stats.cache_hits.values()))
"""


def test_a_change_in_one_file_reaches_the_kernels_of_others(tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(FOLDER, copied, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def printed():
        done = subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert printed() == ["27.0", "0"]  # <x, y>, compiled
    assert printed() == ["27.0", "1"]  # read from disk
    file = copied / "vector_ops.py"
    before, after = "heads_dot = _dot_by_head(lambda b, x, y, z, u, s: _times(b, x, y))", "_plus(b, x, y)"
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, before.replace("_times(b, x, y)", after)), encoding="utf-8")
    assert printed() == ["18.0", "0"]  # a sum over x + y
