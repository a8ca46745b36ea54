"""The commands of `regard`, a file for each thing that people come to do."""
