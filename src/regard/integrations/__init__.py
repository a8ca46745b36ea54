"""Regard inside other libraries: one file for each library, which imports it."""
