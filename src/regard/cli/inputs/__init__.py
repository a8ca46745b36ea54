"""Models and data that commands are given, made ready to be judged."""
