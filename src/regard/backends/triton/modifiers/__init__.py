"""Modifiers of scores inside kernels: the value of a tile and its slope, each in the file of its idea."""
