"""Attention whose weights are products of features: O(n) to run, an n x n map to read."""

from .attend import factored_attend
from .factored_map import FactoredMap

__all__ = ["FactoredMap", "factored_attend"]
