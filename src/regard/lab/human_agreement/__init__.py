"""Attention beside people, on real data: reading times, looks at photographs, rationales of reviews."""
