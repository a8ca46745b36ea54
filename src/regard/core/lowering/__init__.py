"""The normal form that backends share: score kernels, blocks, tiles, random numbers, roofline, serialization."""
