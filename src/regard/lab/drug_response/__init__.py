"""Is attention all one needs for drug response? Baselines, networks, ablations and judges under one protocol."""
