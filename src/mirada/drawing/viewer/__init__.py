"""The page that shows `.attn` records: one HTML file with its own ES modules."""
