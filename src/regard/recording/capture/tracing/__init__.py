"""Tracing hand-written attention from the normalisation to the product with the values."""
