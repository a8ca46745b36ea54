"""Attention maps: lazy, stored, over edges; pyramids, differences, merging."""

from . import difference, pyramid, stored  # noqa: F401 their operations enlist
