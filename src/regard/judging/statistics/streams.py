"""Random numbers, one stream for each purpose."""

import numpy as np


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose. Data drawn by default_rng(seed) share nothing with them: a random baseline that
    happens to be made of the numbers that made the data would not be random."""
    return np.random.Generator(np.random.PCG64([seed, *purpose.encode()]))
