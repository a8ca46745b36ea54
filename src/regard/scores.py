"""Scores by their public name: how well a query and a key match."""

from .core.scores import *  # noqa: F403
from .core.scores import __all__ as __all__
