"""Tasks on graphs: classification of graphs and of nodes, and study tasks."""
