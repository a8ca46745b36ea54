"""Kernels for a GPU, written in Triton. Importing this package imports no Triton."""
