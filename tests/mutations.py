"""Mutation testing: introduce one bug at a time; some test must fail. `make mutations`.

    python tests/mutations.py [WORD ...]    all mutants of tests/mutants.py, or those whose description has a word

Each mutant runs in a copy of the sources. Tests that killed a mutant are then run on the correct sources, where they
must pass. Prints a table; exits with 1 where a mutant survived.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
WHOLE = ("-m", "slow or not slow")  # every case of the products that `make test` runs a sample of
PATIENCE = 3600  # seconds for one mutant: numba compiles anew what was broken


def copied(folder: Path) -> Path:
    """What tests read, apart from this checkout."""
    ignored = shutil.ignore_patterns("__pycache__", "node_modules", "gpu")
    for name in ("src", "tests", "studies", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def pytest(tree: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output. No bytecode is kept: two edits within a second would look alike to it."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "NUMBA_CACHE_DIR": str(tree / "numba"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", *WHOLE, *arguments]
    try:
        done = subprocess.run(command, cwd=tree, env=variables, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stdout + done.stderr


def first_failing_test(mutant: Mutant, tree: Path) -> str | None:
    """The first test that fails, None where none does."""
    path = tree / "src" / "regard" / mutant.file
    sound = path.read_text(encoding="utf-8")
    if sound.count(mutant.right) != 1:
        sys.exit(f"{mutant.file} has {sound.count(mutant.right)} places that read {mutant.right!r}: update the mutant.")
    path.write_text(sound.replace(mutant.right, mutant.wrong), encoding="utf-8")
    try:
        code, output = pytest(tree, "-x", *shlex.split(mutant.tests))
    finally:
        path.write_text(sound, encoding="utf-8")
    if code == 0:
        return None
    failed = [line.partition(" ")[2].partition(" - ")[0] for line in output.splitlines() if line.startswith("FAILED ")]
    if code != 1 or not failed:
        sys.exit(f"{mutant.what}: pytest exited with {code}, and no test failed.\n{output[-3000:]}")
    return failed[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("words", nargs="*", help="only mutants whose description has one of these")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    chosen = [each for each in MUTANTS if not given.words or any(word in each.what for word in given.words)]
    with tempfile.TemporaryDirectory(prefix="regard-mutants-") as name:
        trees: Queue[Path] = Queue()
        for worker in range(given.workers):
            trees.put(copied(Path(name) / str(worker)))

        def tried(mutant: Mutant) -> str | None:
            tree, start = trees.get(), time.monotonic()
            try:
                found = first_failing_test(mutant, tree)
            finally:
                trees.put(tree)
            print(f"{time.monotonic() - start:6.0f} s  {mutant.what}: {found or 'SURVIVES'}", flush=True)
            return found

        with ThreadPoolExecutor(given.workers) as pool:
            found = list(pool.map(tried, chosen))
        code, output = pytest(trees.get(), *sorted({each for each in found if each}))
    if code:
        sys.exit(f"{output[-3000:]}\nThese tests fail on the correct sources too.")
    print("\n| bug | in | first test that fails |\n|---|---|---|")
    for mutant, test in zip(chosen, found, strict=True):
        place = "none" if test is None else f"`{test.partition('::')[2].partition('[')[0]}`"
        print(f"| {mutant.what} | `{mutant.file}` | {place} |")
    survived = found.count(None)
    print(f"\n{len(found) - survived} of {len(found)} mutants were killed.")
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
