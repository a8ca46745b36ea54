"""Networks on graphs, classic ones and graph transformers: layers by one name, and two networks of their own form."""
