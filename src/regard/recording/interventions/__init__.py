"""Changing the attention of any model while it runs."""
