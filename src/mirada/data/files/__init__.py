"""Files of records: opening them, and a reader for every form."""
