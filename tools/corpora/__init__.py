"""The generators of the embedded texts, and what writes them into the package: `python -m tools.corpora.tables`."""
