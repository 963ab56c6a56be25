"""Text: tokens, vectors, packing, n-grams."""
