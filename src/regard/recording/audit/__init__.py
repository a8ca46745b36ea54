"""The audit: a second, independent look at what a model computes, below Python, to find attention that was missed."""
