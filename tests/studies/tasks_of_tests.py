"""Tasks that tests of studies run in worker processes: light (no torch), and some of them full of faults."""

import os
import resource
import signal
import time
from pathlib import Path


def steady(variant, seed, setting):
    """A number that follows from its arguments alone; waits a little, and says that it ran."""
    time.sleep(setting.options.get("seconds", 0.002))
    return {"numbers": {"score": value(variant, seed)}, "scores": {"score": [value(variant, seed), float(seed)]}}


def value(variant, seed):
    return (hash_of(variant) * 31 + seed * 17) % 1009 / 1009


def hash_of(text):
    return sum((place + 1) * ord(letter) for place, letter in enumerate(text))


def failing(variant, seed, setting):
    """The variant "bad" always fails; "twice" fails until its third attempt."""
    if variant == "bad":
        raise RuntimeError("nothing works today")
    if variant == "twice":
        file = Path(setting.options["folder"]) / f"{seed}"
        file.write_text(file.read_text() + "x" if file.exists() else "x")
        if len(file.read_text()) < 3:
            raise ValueError("not yet")
    return steady(variant, seed, setting)


def deadly(variant, seed, setting):
    """The variant "bad" takes its worker with it."""
    if variant == "bad":
        os.kill(os.getpid(), signal.SIGKILL)
    return steady(variant, seed, setting)


def writing(variant, seed, setting):
    """Keeps 64 kB in its folder, which a small disk has no room for."""
    folder = Path(setting.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kept.bin").write_bytes(b"x" * 65536)
    return steady(variant, seed, setting)


def limited(variant, seed, setting):
    """As a full disk, where none can be made: while the file "full" is there, no file may have more than 1 kB."""
    if Path(setting.options["full"]).exists():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        try:
            return writing(variant, seed, setting)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return writing(variant, seed, setting)


def talkative(variant, seed, setting):
    """Prints, and tells how far it is: neither may disturb the answers."""
    print('{"outcome": {"numbers": {"score": 0}}}', flush=True)
    os.write(1, b"not JSON\n")
    setting.report(0.5, "half")
    return steady(variant, seed, setting)


def drawing(variant, seed, setting):
    """Draws from the global generator: a worker that has run others before must give the same."""
    import random

    return {"score": random.random()}


def nothing(variant, seed, setting):
    return {"score": float("nan") if variant == "undefined" else float("inf")}


def tunable(variant, seed, setting):
    """Best at x = 3 for the variant "three", at the default x = 1 for others; "broken" fails beside its default."""
    x = setting.hyper.get("x", 1)
    if variant == "broken" and x != 1:
        raise ValueError("no such x")
    best = 3 if variant == "three" else 1
    score = -((x - best) ** 2) + 0.001 * seed
    return {"numbers": {"score": score}, "validation": score, "curve": [0.0, score]}
