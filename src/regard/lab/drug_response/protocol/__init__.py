"""The nested protocol: splits, folds, tuning, training and one trial."""
