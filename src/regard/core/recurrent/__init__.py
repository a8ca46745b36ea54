"""Linear attention as a recurrence: a state is written by keys and read by queries, and implies an n x n map."""

from .attend import linear_attend

__all__ = ["linear_attend"]
