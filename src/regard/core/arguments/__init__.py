"""Arguments of calls: validation, names that torch has for them, synonyms and suggestions for unknown names."""

from .checks import MOST, SMALLEST, checked, flag, is_whole, kind_of, number, shown, sizes, whole, widths

__all__ = ["MOST", "SMALLEST", "checked", "flag", "is_whole", "kind_of", "number", "shown", "sizes", "whole", "widths"]
