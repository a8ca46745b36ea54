"""Attention over edges on a CPU, compiled by numba."""
