"""A study whose runners are killed over and over: what is finished stays, nothing runs twice, the table is the same."""

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.studies.test_faults import every_trial_was_finished_once, is_that_of_a_quiet_run, runner, study

from regard.studies.aggregate import collect
from regard.studies.run_study import run, store_of


def attack(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Kill runners at random moments `count` times, in studies of 90 trials; then let the last one end."""
    draw, counts, through = random.Random(seed), Counter[str](), list[str]()
    here = str(Path(__file__).parents[1] / "studies")  # where the tasks are
    sys.path.insert(0, here)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [here, str(Path(here).parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    )
    while counts["killed"] < count:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            made, where = study(seeds=30, seconds=0.02), folder / "store.sqlite"
            before = counts["killed"]
            while counts["killed"] < count:
                one = runner(made, folder, where)
                until = time.monotonic() + draw.uniform(0.2, 6.0)
                while one.poll() is None and time.monotonic() < until:
                    time.sleep(0.005)
                if one.poll() is not None:
                    if one.returncode:
                        through.append(f"a runner that nobody killed left with {one.returncode}")
                    break
                one.send_signal(signal.SIGKILL)
                one.wait()
                counts["killed"] += 1
            run(made, folder, store=where, workers=2)
            store = store_of(folder)
            found = collect(store, made)
            store.close()
            counts["studies"] += 1
            if not is_that_of_a_quiet_run(found, made):
                through.append(f"after {counts['killed'] - before} kills the table is another")
            every_trial_was_finished_once(where)
    return counts, through
