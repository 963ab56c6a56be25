"""Training any model: it knows objectives and batches, never what they are made of."""
