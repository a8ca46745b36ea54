"""Capturing attention: one file for each call path. Importing the package registers every reader."""

from . import flex_attention, multihead_attention, recurrences, regard_attend, sdpa
from .edges import torch_geometric
from .hidden import not_visible

__all__ = [
    "flex_attention",
    "multihead_attention",
    "not_visible",
    "recurrences",
    "regard_attend",
    "sdpa",
    "torch_geometric",
]
