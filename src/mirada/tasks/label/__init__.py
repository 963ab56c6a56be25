"""label: the nodes of a graph in, their labels out."""
