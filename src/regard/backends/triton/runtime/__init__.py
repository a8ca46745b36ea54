"""Launching: which devices run Triton kernels, fast launches, replay of whole calls."""
