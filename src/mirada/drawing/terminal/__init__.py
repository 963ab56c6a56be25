"""Attention in a terminal."""
