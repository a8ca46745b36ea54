"""Attacks on what is read, served, called and killed: `make attacks ARGS="records --seed 1 --scale 0.1"`."""

import argparse
import sys
import time
import types
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:1] = [str(ROOT)]
sys.modules["tests"] = types.ModuleType("tests")  # some package installs one of this name
sys.modules["tests"].__path__ = [str(ROOT / "tests")]

from tests import conftest  # noqa: E402, F401
from tests.attacks import calls, kills, records, requests  # noqa: E402

ATTACKS = {  # what is attacked, and how many cases by default
    "records": (records.attack, 10_000),
    "requests": (requests.attack, 2_000),
    "calls": (calls.attack, 5_000),
    "kills": (kills.attack, 100),
}


def main() -> None:
    """Print counts; leave with 1 if anything got through."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", choices=[*ATTACKS, []], help="some of them; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of cases")
    chosen = parser.parse_args()
    failed = 0
    for name in chosen.which or ATTACKS:
        attack, count = ATTACKS[name]
        began = time.perf_counter()
        counts, through = attack(max(1, int(count * chosen.scale)), chosen.seed)
        said = ", ".join(f"{number:,} {what}" for what, number in sorted(counts.items()))
        print(f"{name}: {sum(counts.values()):,} cases in {time.perf_counter() - began:.0f} s: {said}", flush=True)
        for one in through[:20]:
            print(f"  got through: {one}", flush=True)
        failed += len(through)
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
