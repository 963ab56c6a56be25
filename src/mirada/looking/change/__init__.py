"""What-ifs: changes of attention as values, and running a model with them."""
