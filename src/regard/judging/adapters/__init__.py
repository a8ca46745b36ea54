"""What a judge needs of a model and its data, on tokens and on graphs."""
