"""Readers: one file for each way in which attention is called. Importing them enlists them."""

from . import flex_attention as flex  # noqa: F401
from . import multihead_attention as multihead
from . import regard_attend as own
from . import sdpa
from . import torch_geometric as graph
