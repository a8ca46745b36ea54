"""Capturing attention: one file for each way in which it is called. Importing the package registers every reader."""

from . import flex_attention, multihead_attention, regard_attend, sdpa, torch_geometric

__all__ = ["flex_attention", "multihead_attention", "regard_attend", "sdpa", "torch_geometric"]
