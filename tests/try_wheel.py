"""Build Regard, install the wheel in a fresh environment, and use it there: `make test-wheel`.

The wheel is installed twice over: bare, where only what needs no extra may run, and with what the demo needs, where
commands run from an empty folder and a smoke set of tests from the source archive without its sources, so that no test
can read the checkout. PATH holds the environment's commands alone: no Node, no compiler, no git.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMOKE = [
    "tests/core/test_attend.py",
    "tests/core/maps/test_pyramid.py",
    "tests/core/scores",
    "tests/core/alignments",
    "tests/backends/test_reference.py",
    "tests/backends/test_sdpa.py",
    "tests/nn/test_torch_parity.py",
    "tests/recording/capture/test_capture.py",
    "tests/judging/test_finding.py",
    "tests/judging/statistics/test_intervals.py",
    "tests/studies/test_trial_store.py",
    "tests/studies/test_specification.py",
    "tests/views/test_page.py",
    "tests/views/test_report.py",
    "tests/cli/test_app.py",
]
LIGHT = """
import sys, time
import torch
start = time.perf_counter()
import regard
took = time.perf_counter() - start
heavy = {"triton", "transformers", "torch_geometric", "numba", "matplotlib", "sklearn", "scipy", "sqlalchemy"}
assert not heavy & {name.split(".")[0] for name in sys.modules}
assert regard.__file__.startswith(sys.prefix), regard.__file__
print(f"import regard takes {took:.2f} s after torch, on Python {sys.version.split()[0]} and torch {torch.__version__}")
"""


class Place:
    """A fresh environment, and an empty folder that commands run from."""

    def __init__(self, folder: Path):
        venv.create(folder / "environment", with_pip=True)
        self.bin, self.empty = folder / "environment" / "bin", folder / "empty"
        self.empty.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
        self.variables = {**kept, "PATH": str(self.bin), "HF_HUB_OFFLINE": "1", "COLUMNS": "120"}

    def run(self, *command: str | Path, at: Path | None = None, fails: bool = False) -> str:
        line = " ".join(Path(each).name for each in command[:6] if "\n" not in str(each))
        start = time.monotonic()
        given = [str(self.bin / command[0]), *map(str, command[1:])]
        done = subprocess.run(
            given, cwd=at or self.empty, env=self.variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if (done.returncode != 0) != fails:
            sys.exit(f"{done.stdout}\n{line}: left with {done.returncode}")
        print(f"{time.monotonic() - start:6.1f} s  {line[:90]}", flush=True)
        return done.stdout

    def install(self, *what: str) -> None:
        """As the README says, from built packages alone, at the versions that are tested."""
        options = ["--disable-pip-version-check", "--only-binary", ":all:", "-c", str(ROOT / "constraints.txt")]
        self.run("pip", "install", "--quiet", *options, *what)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="regard-wheel-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder / "built")], cwd=ROOT, check=True)
        (wheel,), (archive,) = (folder / "built").glob("*.whl"), (folder / "built").glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(folder / "source", filter="data")
        (source,) = (folder / "source").iterdir()
        shutil.rmtree(source / "src")

        place = Place(folder)
        place.install(str(wheel))
        print(place.run("python", "-c", LIGHT).strip())
        assert "entmax" in place.run("regard", "taxonomy").lower()
        printed = place.run("regard", "look", "minilm", "Some text.", fails=True)
        assert "regard[models]" in printed, printed

        place.install(f"{wheel}[demo]", "pytest", "hypothesis", "entmax", "httpx")
        place.run("regard", "look", "minilm", "The animal did not cross the street because it was tired.")
        assert "tired" in (place.empty / "look.html").read_text(encoding="utf-8")
        place.run("regard", "record", "minilm", "Attention, looked at.", "-o", "run.regard")
        assert "0.1" in place.run("regard", "show", "run.regard")
        place.run("regard", "demo", "--seeds", "1", "--epochs", "1")
        assert list((place.empty / "regard-demo").glob("*.html"))
        print(place.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *SMOKE, at=source).splitlines()[-1])
    print("The wheel works.")


if __name__ == "__main__":
    main()
