"""Benchmarks: us and the peer in one process, as a ratio, with the bar and the limit beside it. Never a unit test."""
