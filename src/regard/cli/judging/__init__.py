"""Subcommands of `regard judge`."""
