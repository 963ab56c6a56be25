"""embed: a text in, a vector out: near vectors are of texts with a similar meaning."""
