"""Scores as sums over what wrote into the residual stream: q and k are affine in it once the scales are frozen."""
