"""The models of the comparison: baselines, and one network with attention in each place of the field."""
