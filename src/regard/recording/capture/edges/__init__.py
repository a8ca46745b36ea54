"""Attention over the edges of a graph, as other libraries compute it."""
