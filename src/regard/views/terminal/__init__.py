"""Maps and records in a terminal."""
