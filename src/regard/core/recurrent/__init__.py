"""Linear attention as a recurrence over a matrix state, and the n x n map that it implies."""

from .attend import linear_attend

__all__ = ["linear_attend"]
