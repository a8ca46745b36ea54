"""Reading attention maps on a GPU: rows, tiles, top-k, pyramids."""
