"""`make test-compiled` compiles for a card that is not there, and says what does not fit on it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

SCRIPT = Path(__file__).parents[2] / "compile_kernels.py"


def test_kernels_are_compiled_and_told_and_what_does_not_fit_is_too():
    known = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    words = ["gatv2 softmax fp32", "dot softmax 16 bf16", "--shared", "4"]
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, env=known)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 calls for sm_90" in done.stdout and "1 of 2 calls compiled" in done.stdout
    assert "dot softmax 16 bf16: FAILED  OutOfResources" in done.stdout
    assert all(f"{name}_kernel" in done.stdout for name in ("forward", "delta", "source", "target"))


@pytest.mark.slow
def test_products_of_fp32_are_as_wide_as_each_other_where_heads_and_values_are_not():
    """Hopper's assembler in CUDA 12.8 gives narrow products beside wider ones the addresses of others: NaN, or an
    illegal memory access (`least_width`)."""
    known = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, SCRIPT, "beside"], capture_output=True, text=True, env=known)
    assert done.returncode == 0 and "3 of 3 calls compiled" in done.stdout, done.stdout + done.stderr
