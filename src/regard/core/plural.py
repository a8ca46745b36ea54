"""Counts with singular and plural nouns."""


def count_of(n: int, word: str) -> str:
    """1 seed, 2 seeds."""
    return f"{n} {word}{'s' * (n != 1)}"
