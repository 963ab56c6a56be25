"""Searching for the best continuation, for every model that can take a step."""
