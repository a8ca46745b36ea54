"""Models and data of the command line as adapters for judging."""
