"""The embedded data sets: generated texts, and code that draws or computes the others."""
