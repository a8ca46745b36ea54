"""Attention over the edges of a graph as other libraries run it."""
