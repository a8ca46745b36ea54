"""The distribution: the wheel and the source archive, built and inspected.

`make test-wheel` installs the wheel in a fresh environment and runs it; it takes minutes and is not part of this run.
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "regard"

pytest.importorskip("hatchling", reason="hatchling builds the wheel, and is not installed: pip install hatchling")


def build(tree, out, *kinds):
    """Archives of a tree, as `pip wheel` would have them, without asking any registry; one path for each kind."""
    out.mkdir()
    options = [option for kind in kinds for option in ("-t", kind)]
    result = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(out), *options], cwd=tree, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    endings = {"wheel": "*.whl", "sdist": "*.tar.gz"}
    return [next(out.glob(endings[kind])) for kind in kinds]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source archive and the wheel of this checkout."""
    return build(ROOT, tmp_path_factory.mktemp("built") / "out", "sdist", "wheel")


@pytest.fixture(scope="module")
def unpacked(built, tmp_path_factory):
    """The source archive, opened elsewhere: other folders, other times of files."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(built[0]) as archive:
        archive.extractall(folder, filter="data")
    (inner,) = folder.iterdir()
    for path in inner.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    return inner


def test_a_second_build_from_the_source_archive_is_the_same_bytes(built, unpacked, tmp_path):
    again = build(unpacked, tmp_path / "out", "sdist", "wheel")
    for first, second in zip(built, again, strict=True):
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes(), f"{first.name} differs from build to build"


def test_the_wheel_is_the_package_and_nothing_else(built):
    ours = {f"regard/{path.relative_to(PACKAGE).as_posix()}": path for path in PACKAGE.rglob("*") if path.is_file()}
    ours = {name: path for name, path in ours.items() if "__pycache__" not in name}
    with zipfile.ZipFile(built[1]) as wheel:
        inside = {name for name in wheel.namelist() if not name.split("/")[0].endswith(".dist-info")}
        assert inside == set(ours)
        changed = [name for name, path in ours.items() if wheel.read(name) != path.read_bytes()]
    assert not changed
    data = {Path(name).suffix for name in inside}
    # bundles, templates, the quick study, types, how well the tests of attention do on models of known truth
    assert {".py", ".js", ".html", ".css", ".toml", ".typed", ".json"} == data


def test_the_source_archive_can_be_worked_in(unpacked):
    """All that a clone has, and nothing that a build or a run left behind."""
    for name in (
        "Makefile",
        "constraints.txt",
        "mkdocs.yml",
        "CONTRIBUTING.md",
        "LICENSE",
        "README.zh.md",
        "tests/oracle.py",
        "docs/index.md",
        "studies",
        "web/package.json",
    ):
        assert (unpacked / name).exists(), name
    left = {"node_modules", "__pycache__", ".venv", "site", "regard-demo", ".pytest_cache", ".hypothesis"}
    found = [path for path in unpacked.rglob("*") if path.name in left or path.suffix == ".pyc"]
    assert not found


def test_the_wheel_needs_no_compiler_and_names_its_command(built):
    assert built[1].name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(built[1]) as wheel:
        (entry,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
        assert "regard = regard.cli.app:app" in wheel.read(entry).decode()
        about = Parser().parsestr(wheel.read(entry.replace("entry_points.txt", "METADATA")).decode())
    bare = [each for each in about.get_all("Requires-Dist") if "extra ==" not in each]
    assert {each.split(">")[0] for each in bare} == {"torch", "numpy", "networkx", "typer", "rich"}
    assert about["Requires-Python"] == ">=3.11"


def test_the_package_runs_out_of_the_wheel_from_an_empty_folder(built, tmp_path):
    place, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(built[1]) as wheel:
        wheel.extractall(place)
    code = (
        "import sys, pathlib, regard\n"
        "from typer.testing import CliRunner\n"
        "from regard.cli.app import app\n"
        "assert pathlib.Path(regard.__file__).is_relative_to(sys.argv[1]), regard.__file__\n"
        "result = CliRunner().invoke(app, ['taxonomy'])\n"
        "assert result.exit_code == 0 and 'entmax' in result.output.lower(), result.output\n"
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(place)],
        cwd=empty,
        capture_output=True,
        text=True,
        env={**clean, "PYTHONPATH": str(place)},
    )
    assert done.returncode == 0, done.stderr
    assert not list(empty.iterdir())
