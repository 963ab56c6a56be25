"""Blocks around the attention layer."""
