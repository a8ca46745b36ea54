"""What can be checked of a release without a network: `make release-check`.

One version in every place, a changelog that is ready, licences that may be shipped beside Apache-2.0, and a wheel and a
source archive that come out the same byte for byte when they are built twice. They are left in dist/.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from email.parser import Parser
from importlib.metadata import Distribution, distributions
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]

# Licences that a user of Apache-2.0 software need not fear: permissive, or copyleft that ends at the library itself.
ALLOWED = re.compile(
    r"apache|\bmit\b|bsd|\bisc\b|\bpsf\b|python software foundation|python-2|zlib|\bmpl\b|mozilla public|unlicense|"
    r"public domain|cc0|0bsd|hpnd|lgpl|lesser general|blueoak|\bncsa\b|historical permission",
    re.IGNORECASE,
)


def version_of(text: str, pattern: str, where: str) -> str:
    """The version that `pattern` finds in a file's text."""
    found = re.search(pattern, text, re.MULTILINE)
    if not found:
        raise SystemExit(f"{where} names no version.")
    return found[1]


def versions() -> dict[str, str]:
    """The version that each place names, the newest heading of the changelog among them."""
    init = (ROOT / "src/regard/__init__.py").read_text()
    citation = (ROOT / "CITATION.cff").read_text()
    return {
        "src/regard/__init__.py": version_of(init, r'^__version__ = "(.+)"$', "__init__.py"),
        "CITATION.cff": version_of(citation, r"^version: (.+)$", "CITATION.cff"),
    }


def problems_of_version(tag: str | None) -> Iterator[str]:
    """Places that disagree; with a tag, a changelog that has no entry for it or is not closed."""
    named = versions()
    if len(set(named.values())) > 1:
        yield "versions differ: " + ", ".join(f"{where} says {version}" for where, version in named.items())
    if tag is None:
        return
    version = tag.removeprefix("v")
    for where, said in named.items():
        if said != version:
            yield f"the tag is {tag}, and {where} says {said}"
    changelog = (ROOT / "CHANGELOG.md").read_text()
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        yield f"CHANGELOG.md has no heading '## [{version}] - YYYY-MM-DD'"
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if unreleased and unreleased[1].strip():
        yield "CHANGELOG.md has entries under [Unreleased]: move them under the version"


SECTION = re.compile(r"^### (\w+)\n(.*?)(?=^###? |\Z)", re.MULTILINE | re.DOTALL)


def folded(changelog: str, version: str, day: date) -> str:
    """The changelog with what is under [Unreleased] under `version`, the newest entries first."""
    newest = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if newest is None:
        raise SystemExit("CHANGELOG.md has no heading '## [Unreleased]'")
    rest = changelog[newest.end() :]
    held = re.match(rf"## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", rest, re.MULTILINE | re.DOTALL)
    entries: dict[str, str] = dict.fromkeys(("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"), "")
    for text in (newest[1], held[1] if held else ""):
        for name, lines in SECTION.findall(text):
            entries[name] = entries.get(name, "") + lines.strip("\n") + "\n" * bool(lines.strip())
    sections = "".join(f"### {name}\n\n{lines}\n" for name, lines in entries.items() if lines)
    released = f"## [Unreleased]\n\n## [{version}] - {day.isoformat()}\n\n{sections}"
    return changelog[: newest.start()] + released + (rest[held.end() :] if held else rest)


def licence(package: Distribution) -> str:
    """What a package's metadata says of its licence; empty if nothing."""
    said = package.metadata
    classifiers = [each.rpartition(" :: ")[2] for each in said.get_all("Classifier") or [] if "License ::" in each]
    short = (said.get("License") or "").strip().partition("\n")[0]
    return said.get("License-Expression") or ", ".join(classifiers) or short


def problems_of_licences() -> Iterator[str]:
    """Installed packages whose licence is not among the allowed ones, or that name none."""
    for package in sorted(distributions(), key=lambda each: each.metadata["Name"].lower()):
        name = package.metadata["Name"]
        said = licence(package) or licence_file(package)
        if not said:
            yield f"{name} names no licence"
        elif not ALLOWED.search(said):
            yield f"{name} is under {said!r}"


def licence_file(package: Distribution) -> str:
    """The first lines of the licence that a package carries, for those whose metadata says nothing."""
    for path in package.files or []:
        if re.match(r"(licen[sc]e|copying)", path.name, re.IGNORECASE):
            text = Path(str(package.locate_file(path)))
            if text.is_file():
                return " ".join(text.read_text(errors="replace")[:300].split())
    return ""


def build(source: Path, out: Path) -> dict[str, bytes]:
    """Wheel and source archive of `source`, by file name."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def problems_of_archives(out: Path) -> Iterator[str]:
    """Builds that differ, or a wheel without its licence and front end. Leaves the archives in `out`."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = build(ROOT, Path(folder) / "a"), build(ROOT, Path(folder) / "b")
    for name, content in first.items():
        if second.get(name) != content:
            yield f"two builds of {name} differ"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name, content in first.items():
        (out / name).write_bytes(content)
        print(f"  {hashlib.sha256(content).hexdigest()}  dist/{name}  {len(content) / 1e6:.1f} MB")
    (wheel,) = out.glob("*.whl")
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        about = Parser().parsestr(archive.read(metadata).decode())
    for needed in ("LICENSE", "static/regard.js", "py.typed"):
        if not any(name.endswith(needed) for name in names):
            yield f"{wheel.name} does not hold {needed}"
    if about["Version"] != versions()["src/regard/__init__.py"]:
        yield f"{wheel.name} says version {about['Version']}"


def problems_of_tree() -> Iterator[str]:
    """Files that are changed or not committed."""
    state = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    if state.strip():
        yield "the working tree has changes: " + ", ".join(line[3:] for line in state.splitlines()[:5])


def main() -> None:
    """Print what is checked and every problem; leave with 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", help="the tag of a release (v0.2.0), which version and changelog must be ready for")
    parser.add_argument("--licences", action="store_true", help="the licences of the installed packages alone")
    parser.add_argument("--fold", metavar="VERSION", help="move what is under [Unreleased] under a version, of today")
    chosen = parser.parse_args()
    if chosen.fold:
        changelog = ROOT / "CHANGELOG.md"
        changelog.write_text(folded(changelog.read_text(), chosen.fold, date.today()))
        return
    checks = {"licences of what is installed": problems_of_licences}
    if not chosen.licences:
        checks |= {
            "one version everywhere": lambda: problems_of_version(chosen.tag),
            "a clean working tree": problems_of_tree,
            "archives that build twice alike": lambda: problems_of_archives(ROOT / "dist"),
        }
    failed = 0
    for what, check in checks.items():
        print(f"{what} ...")
        for problem in check():
            failed += 1
            print(f"  {problem}")
    print("Nothing stands against a release." if not failed else f"Problems: {failed}.")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
