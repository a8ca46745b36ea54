"""Named data sets, read from the folder that REGARD_DATA names, and planted tasks with known truth."""
