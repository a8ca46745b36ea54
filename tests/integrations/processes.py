"""Runs a script in several gloo processes of this machine; what one of them raises is raised here."""

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def run(count: int, script: Path, timeout: float = 3600) -> list[Any]:
    """What the script's `answer(work)` gives in each of `count` processes."""
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen([sys.executable, str(script), str(rank), str(count), folder]) for rank in range(count)
        ]
        try:
            for process in processes:
                process.wait(timeout)
        finally:
            for process in processes:
                process.kill()
        found = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(count)]
    wrong = [f"rank {rank}: {one['error']}" for rank, one in enumerate(found) if "error" in one]
    assert not wrong, "\n".join(wrong)
    return [one["answer"] for one in found]


def answer(work: Callable[[int, int], Any]) -> None:
    """In the script: begins the process group, calls work(rank, count), writes down what it returns or raises."""
    rank, count, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count, timeout=timedelta(seconds=120)
    )
    try:
        found = {"answer": work(rank, count)}
    except BaseException:
        found = {"error": traceback.format_exc()[-3000:]}
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    os._exit(0)  # without waiting for processes that a test has left behind
