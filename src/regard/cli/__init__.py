"""The commands of `regard`, one file for each verb or task."""
