"""tag: a text in, its words with their tags out: names, places, parts of speech."""
