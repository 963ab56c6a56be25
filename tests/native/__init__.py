"""Tests of the compiled C and its loader."""
