"""The tasks of `regard train`, one a file: each with its model, its measures and its trivial baselines."""
