"""Tasks on graphs: classification of graphs and of nodes, and what studies run of them."""
