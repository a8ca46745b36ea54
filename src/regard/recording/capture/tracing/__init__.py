"""Attention that a model writes out by hand, from the normalisation to the product with the values."""
