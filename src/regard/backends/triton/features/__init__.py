"""Feature-wise (multi-dimensional) softmax."""
