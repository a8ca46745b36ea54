"""Wrong calls of the public functions: a sentence that names the argument, or finite numbers; nothing else."""

import random
from collections import Counter

from tests.core.test_wrong_calls import calls
from tests.core.wrong_calls import everything, verdict


def attack(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Make `count` of all wrong calls, drawn anew for every seed."""
    every = list(everything(calls()))
    counts, through = Counter[str](), list[str]()
    for call, argument, value in random.Random(seed).sample(every, min(count, len(every))):
        found = verdict(call, argument, value)
        counts["right" if found is None else "wrong"] += 1
        if found is not None:
            through.append(f"{call.name}({argument}={value}): {found}")
    return counts, through
