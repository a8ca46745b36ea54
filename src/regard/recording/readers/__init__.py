"""Readers: one file for each way in which attention is called. Importing them enlists them."""

from . import flex, graph, multihead, own, sdpa  # noqa: F401
