"""Maps and records in a notebook."""
