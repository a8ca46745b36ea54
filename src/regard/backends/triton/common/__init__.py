"""Tile functions that several kernels share: random numbers, pair scores, biases, ranges, sigmoid."""
