"""Arguments of a caller: checked, taken as torch names them, and suggested where a name is unknown."""

from .checks import MOST, SMALLEST, checked, flag, is_whole, kind_of, number, shown, sizes, whole, widths

__all__ = ["MOST", "SMALLEST", "checked", "flag", "is_whole", "kind_of", "number", "shown", "sizes", "whole", "widths"]
