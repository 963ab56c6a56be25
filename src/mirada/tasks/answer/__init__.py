"""answer: a question and a passage in, the span that answers it out."""
