"""Transformers whose circuits are known, because they were written by hand; and who finds their edges."""
