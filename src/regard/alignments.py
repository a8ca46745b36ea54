"""Alignments by their public name: scores into weights."""

from .core.alignments import *  # noqa: F403
from .core.alignments import __all__ as __all__
