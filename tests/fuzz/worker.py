"""A process that runs random cases: their names come in by lines, and a line of JSON goes out for each.

    cpu-17.3  ->  {"case": "cpu-17.3", "what": "scaled dot; softmax; ...", "ran": ["chunked", ...], "wrong": []}

A fault ends the process; the one that started it (tests/fuzz/__main__.py) knows which case it was. Fresh memory is
poisoned, so that a number which nobody wrote is seen: by glibc on a CPU (MALLOC_PERTURB_), by NaN in freed blocks of
the allocator on a GPU.
"""

import contextlib
import ctypes
import io
import json
import os
import sys
import time
import types
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # as tests/conftest.py says
ROOT = Path(__file__).parents[2]
tests = types.ModuleType("tests")  # a package of this name may be installed
tests.__path__ = [str(ROOT / "tests")]
sys.modules["tests"] = tests

import torch  # noqa: E402
from tests.fuzz.case import fuzzed  # noqa: E402
from tests.fuzz.checks import wrong_with  # noqa: E402
from tests.fuzz.interpreted import kernels_in_the_interpreter  # noqa: E402

POISON = 1 << 28  # bytes of a GPU that hold NaN before each case


def poison() -> None:
    """What the GPU's allocator hands out next holds NaN, in blocks of several sizes."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    held = [torch.full((size >> 2,), float("nan"), device="cuda") for size in (1 << 10, 1 << 14, 1 << 18, 1 << 20) * 32]
    held.append(torch.full((POISON >> 2,), float("nan"), device="cuda"))
    del held
    torch.cuda.synchronize()


def ran(name: str) -> dict[str, object]:
    """One case; an error of the case itself is told as one of its own."""
    start, what, ways = time.perf_counter(), name, []
    if name == "fault":  # for the test of the driver
        ctypes.string_at(0)
    if name == "hang":
        time.sleep(3600)
    try:
        case = fuzzed(name, "cuda" if name.startswith("cuda") and torch.cuda.is_available() else "cpu")
        what = str(case)
        if case.device == "cuda":
            poison()
        with kernels_in_the_interpreter() if case.kind != "cpu" and case.device == "cpu" else contextlib.nullcontext():
            wrong, ways = wrong_with(case)
        if case.device == "cuda":
            torch.cuda.synchronize()
    except Exception as error:
        wrong = [f"the case itself: {type(error).__name__}: {' '.join(str(error).split())[:300]}"]
    return {"case": name, "what": what, "ran": ways, "wrong": wrong, "seconds": round(time.perf_counter() - start, 2)}


def main() -> None:
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")  # what else is printed is no answer
    os.dup2(2, 1)
    for line in sys.stdin:
        with contextlib.redirect_stdout(io.StringIO()):
            answer = ran(line.strip())
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
