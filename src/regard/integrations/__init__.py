"""Regard inside other libraries: one file a library, which is imported only by whoever imports that file."""
