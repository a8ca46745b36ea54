"""What attention is: structures, scores, alignments, the plan, attend and maps."""
