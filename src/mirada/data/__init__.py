"""Data: from files and generators to batches."""
