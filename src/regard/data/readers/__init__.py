"""A user's own files: one documented form a kind of data, one reader that is told a path (docs/your_data.md)."""
