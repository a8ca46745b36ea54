"""Bounded caches: least recently used, and by the identity of tensors."""
