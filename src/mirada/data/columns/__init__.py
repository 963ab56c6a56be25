"""Tables: which line is the header, which column is which, what the cells say."""
