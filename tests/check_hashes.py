"""Are the files that pip installed the published ones? `make run` and `make test` ask, by constraints.sha256.

pip itself cannot check hashes here: beside an editable project, and of names that only a constraint pins, it refuses
them. So it writes down what it installs (`--report`), and this script compares: a line of constraints.sha256 is
`name==version` and the SHA-256 of each of its builds (for another Python, processor or system, several).

Another hash ends the installation, unless pip is told of an index or a folder of one's own (a mirror may build packages
anew): then it is said, and goes on. A package that no line lists, which another system may need, is said too.
HASHES=strict ends in every case, HASHES=off asks nothing.

    python tests/check_hashes.py REPORT          compare
    python tests/check_hashes.py --write         ask the package index for the hashes of what constraints.txt pins
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HASHES = ROOT / "constraints.sha256"
INDEX = "https://pypi.org/simple"

# What PyTorch's own metadata pins or brings on Linux: no line of constraints.txt, since a CPU build takes none of it.
OF_TORCH = [
    "triton==3.7.1",
    "triton==3.9.0",
    "cuda-toolkit==13.0.3.0",
    "cuda-bindings==13.5.0",
    "cuda-pathfinder==1.9.0",
    "nvidia-cudnn-cu13==9.20.0.48",
    "nvidia-cusparselt-cu13==0.8.1",
    "nvidia-nccl-cu13==2.29.7",
    "nvidia-nvshmem-cu13==3.4.5",
    "nvidia-cublas==13.1.1.3",
    "nvidia-cuda-cupti==13.0.85",
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cufft==12.0.0.61",
    "nvidia-cufile==1.15.1.6",
    "nvidia-curand==10.4.0.35",
    "nvidia-cusolver==12.0.4.66",
    "nvidia-cusparse==12.6.3.3",
    "nvidia-nvjitlink==13.5.37",
    "nvidia-nvtx==13.0.85",
]

# Builds that are on no index of PyPI: PyTorch's own, without CUDA.
ELSEWHERE = {
    "torch==2.13.0": ["6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"],  # +cpu, 3.11, Linux, x86-64
}

# Wheels for the Pythons and systems that are supported; a source archive is a build too.
WANTED = re.compile(
    r"(\.tar\.gz|\.zip|-none-any\.whl|(py3-none|cp31[123]-cp31[123]|abi3|py2\.py3-none)-"
    r"(manylinux\S*(x86_64|aarch64)|macosx\S*|win_amd64|linux_x86_64)\.whl)$"
)


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def listed() -> dict[str, set[str]]:
    """The hashes of each `name==version`."""
    lines = [line.split() for line in HASHES.read_text().splitlines() if line and not line.startswith("#")]
    return {pin: set(hashes) for pin, *hashes in lines}


def installed(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(name==version, SHA-256, address) of every archive that pip installed; the project itself is none."""
    made = []
    for each in report["install"]:
        archive = each["download_info"].get("archive_info")
        if archive is not None:
            version = each["metadata"]["version"].partition("+")[0]
            found = archive.get("hashes", {}).get("sha256", "")
            made.append((f"{normalised(each['metadata']['name'])}=={version}", found, each["download_info"]["url"]))
    return made


def unlisted(report: dict[str, Any], hashes: dict[str, set[str]]) -> list[str]:
    """A sentence for each archive of which nothing is known."""
    return [f"{pin} is not listed: {address}" for pin, _, address in installed(report) if pin not in hashes]


def differing(report: dict[str, Any], hashes: dict[str, set[str]]) -> list[str]:
    """A sentence for each archive whose hash is not among those of its version."""
    return [
        f"{pin} has another hash than any published build: {found or 'none'}, {address}"
        for pin, found, address in installed(report)
        if pin in hashes and found not in hashes[pin]
    ]


def has_own_index() -> bool:
    """Whether pip is configured to look elsewhere than on PyPI."""
    asked = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    named = any(os.environ.get(f"PIP_{name}") for name in ("INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS", "CONFIG_FILE"))
    return named or bool(re.search(r"(index-url|find-links)\s*=", said))


def compare(path: Path) -> int:
    """Print what differs; the exit status."""
    how = os.environ.get("HASHES", "")
    if how == "off":
        return 0
    report = json.loads(path.read_text())
    wrong, unknown = differing(report, listed()), unlisted(report, listed())
    count = len(installed(report))
    for sentence in unknown:
        print(f"  {sentence}")
    if how == "strict":
        wrong += unknown
    if not wrong:
        if not count:
            return 0
        print(f"The hashes of {count - len(unknown)} of {count} installed packages are those of constraints.sha256.")
        return 0
    for sentence in wrong:
        if sentence not in unknown:
            print(f"  {sentence}")
    if how != "strict" and has_own_index():
        print(
            f"{len(wrong)} of {count} packages are not the builds of constraints.sha256. pip is configured with an "
            "index or links of its own, which may build packages anew, so this goes on; HASHES=strict stops here."
        )
        return 0
    print(
        f"{len(wrong)} of {count} packages are not the builds of constraints.sha256; nothing of them was run. If you "
        "trust where they come from, say HASHES=off; otherwise report it (SECURITY.md)."
    )
    return 1


def published(pin: str) -> tuple[str, list[str]]:
    """A pin and the hashes of its builds, as the index gives them."""
    name, _, version = pin.partition("==")
    name = normalised(name)
    page = urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60).read().decode()
    found = set(ELSEWHERE.get(f"{name}=={version}", ()))
    for address, file in re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', page):
        stem = file[:-4].split("-") if file.endswith(".whl") else re.sub(r"\.(tar\.gz|zip)$", "", file).rsplit("-", 1)
        known = re.search(r"sha256=([0-9a-f]{64})", unescape(address))
        if known and len(stem) > 1 and (normalised(stem[0]), stem[1]) == (name, version) and WANTED.search(file):
            found.add(known[1])
    if not found:
        raise SystemExit(f"{INDEX} has no build of {pin}.")
    return f"{name}=={version}", sorted(found)


def write() -> None:
    """Make constraints.sha256 anew."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    with ThreadPoolExecutor(8) as several:
        made = sorted(several.map(published, [*pins, *OF_TORCH]))
    head = "# The SHA-256 of each build of what constraints.txt pins: python tests/check_hashes.py --write\n"
    HASHES.write_text(head + "".join(f"{pin} {' '.join(hashes)}\n" for pin, hashes in made))
    print(f"{len(made)} packages, {sum(len(hashes) for _, hashes in made)} builds.")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        raise SystemExit(compare(Path(sys.argv[1])))
