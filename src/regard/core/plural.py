"""Words for numbers, the same wherever people read them."""


def count_of(n: int, word: str) -> str:
    """1 seed, 2 seeds."""
    return f"{n} {word}{'s' * (n != 1)}"
