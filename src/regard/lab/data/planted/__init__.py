"""Synthetic tasks with ground truth for attention. They need no files."""

from .cipher import cipher
from .clutter import clutter
from .csbm import csbm
from .long_range import far
from .motifs import motifs
from .relations import two_relations
from .retrieval import retrieval

__all__ = ["cipher", "clutter", "csbm", "far", "motifs", "retrieval", "two_relations"]
