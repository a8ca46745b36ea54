"""The tasks of `regard train`: each with its model, metrics and trivial baselines."""
