"""The switch of the fast path: cached plans, operators called past the dispatcher, replayed launches.

`REGARD_FAST_PATH=0` turns all of it off; it is read once, when regard is imported. It is also off for versions of
torch that it was not tested with: the fast path uses private parts of torch (core/torch_private.py), which change
without notice. Results are the same bits either way.
"""

import os

import torch

TESTED_TORCH = ((2, 11), (2, 13))


def release(version: str) -> tuple[int, ...]:
    """(major, minor) of "2.13.0+cpu"."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def off_because(setting: "str | None", version: str) -> str | None:
    """Why the fast path is off, as a sentence; None if it is on."""
    if setting == "0":
        return "REGARD_FAST_PATH=0."
    if release(version) not in TESTED_TORCH:
        return f"It was tested with torch {listed(TESTED_TORCH)}; this is {version}."
    return None


def listed(versions: tuple[tuple[int, int], ...]) -> str:
    return " and ".join(f"{major}.{minor}" for major, minor in versions)


reason: str | None = off_because(os.environ.get("REGARD_FAST_PATH"), torch.__version__)
enabled: bool = reason is None
