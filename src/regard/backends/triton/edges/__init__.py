"""Attention over the edges of a graph."""
