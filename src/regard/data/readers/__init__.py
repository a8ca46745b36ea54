"""Readers of a user's files: one documented format for each kind of data (docs/your_data.md)."""
