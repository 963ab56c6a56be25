"""Programs for those who work on mirada; no part of the package."""
