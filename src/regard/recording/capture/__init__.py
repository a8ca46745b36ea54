"""Capturing attention: one file for each way in which it is called."""
