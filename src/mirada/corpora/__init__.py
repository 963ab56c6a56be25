"""The embedded data sets, generated."""
