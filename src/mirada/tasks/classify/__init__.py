"""classify: a text in, one of the labels out."""
