"""Agreement of attention with humans, on real data: reading times, fixations on photographs, rationales of reviews."""
