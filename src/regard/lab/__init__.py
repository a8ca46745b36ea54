"""What was measured with the library: data, tasks, claims, human agreement, reproductions, benchmarks, the demo."""
