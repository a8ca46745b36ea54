"""Attention maps: lazy, stored, over edges; pyramids, differences, merging."""
