"""flex_attention: a score function and a mask function of the user's, called on tiles."""
