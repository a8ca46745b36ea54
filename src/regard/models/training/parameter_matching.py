"""Parameter matching: the width at which two networks have equally many parameters."""

from collections.abc import Callable

LARGEST = 1 << 14  # maximum width


def matched_width(count: Callable[[int], int], target: int, multiple: int = 1) -> int:
    """The width, a multiple of `multiple`, whose network has the number of parameters nearest to `target`.

    count   the number of parameters by width, non-decreasing; ties go to the smaller width
    """
    low, high = 1, 2
    while count(high * multiple) < target and high * multiple < LARGEST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle * multiple) < target else (low, middle)
    nearest = min((low, high), key=lambda times: (abs(count(times * multiple) - target), times))
    return nearest * multiple
