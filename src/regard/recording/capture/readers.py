"""Importing this file enlists every way in which attention is captured."""

from . import flex_attention, multihead_attention, regard_attend, sdpa, torch_geometric  # noqa: F401
