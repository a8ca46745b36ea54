"""Studies: tasks x variants x seeds, run by an engine, kept in a store, compared by statistics."""
