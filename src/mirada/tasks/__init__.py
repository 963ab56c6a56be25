"""What a person wants done: the one place where data, model, training, decoding and metric meet."""
