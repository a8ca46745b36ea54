"""The models: those whose weights are a reason, those whose are not, and graphs."""
