"""Any plan in O(n) memory, forward and backward, in plain torch, on a CPU or a GPU."""
