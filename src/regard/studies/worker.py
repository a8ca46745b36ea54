"""A worker of the local engine: takes jobs from its input, line by line, and answers on its output.

It is started as a file of its own (python -P worker.py), not as a part of Regard: a light task then needs no torch, and
nothing is pickled. Neither its folder nor the current one is on the path of imports (-P): a lightning.py that lies
there is no business of a study. It ends with its input, so that no worker outlives a runner, however that ended.
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
    trial = _beside("trial")
    jobs: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    lock = threading.Lock()

    def say(**what: Any) -> None:
        with lock:
            answers.write(json.dumps(what, allow_nan=False) + "\n")
            answers.flush()

    say(ready=os.getpid())
    while True:
        job = jobs.get()
        say(outcome=trial.run(job, lambda share, note: say(share=share, note=note)))


def _listen(jobs: "queue.Queue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(0)


def _beside(name: str) -> Any:
    """A file of this folder as a module of its own, without the package around it."""
    spec = importlib.util.spec_from_file_location(f"regard_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
