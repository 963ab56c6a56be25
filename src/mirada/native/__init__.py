"""Compiled C, where a compiler is available."""
