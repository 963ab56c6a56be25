"""estimate: a text or a row of a table in, a number out."""
