"""The record file: written at once or not at all, read without trust."""
