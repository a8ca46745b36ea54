"""The data of a page: maps, graphs, differences and pictures as compressed arrays with a JSON description."""
