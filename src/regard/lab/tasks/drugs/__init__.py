"""Drug response as a task of `regard train`."""
