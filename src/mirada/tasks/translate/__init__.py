"""translate: a sentence in, the same sentence in another language out."""
