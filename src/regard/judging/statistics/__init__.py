"""Intervals and distances between distributions."""
