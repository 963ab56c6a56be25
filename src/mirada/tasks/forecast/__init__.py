"""forecast: the latest rows of a series in, the next rows out."""
