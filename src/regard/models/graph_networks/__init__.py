"""Graph networks, classic ones and graph transformers: layers by name, SGFormer and Polynormer."""
