"""Importance of tokens and edges: by attention, gradients, leaving out."""
