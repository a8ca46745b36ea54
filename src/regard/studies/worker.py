"""A worker process of the local engine: reads jobs from stdin, one JSON object a line, and writes outcomes to stdout.

It is started as a script (python -P worker.py) rather than as a module of Regard, so that light tasks need no torch and
nothing is pickled. With -P neither its folder nor the current one is on sys.path: a lightning.py there cannot shadow
the package. It exits at the end of stdin, so no worker outlives its runner.
"""

import importlib.util
import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a task prints goes to the log
    trial = _load_sibling("trial")
    jobs: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    lock = threading.Lock()

    def send(**message: Any) -> None:
        with lock:
            answers.write(json.dumps(message, allow_nan=False) + "\n")
            answers.flush()

    send(ready=os.getpid())
    while True:
        job = jobs.get()
        send(outcome=trial.run(job, lambda share, note: send(share=share, note=note)))


def _read_jobs(jobs: "queue.Queue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(0)


def _load_sibling(name: str) -> Any:
    """A file of this folder as a module, without importing the package."""
    spec = importlib.util.spec_from_file_location(f"regard_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
