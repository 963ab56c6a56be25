"""English sentences and their Spanish translations, made from a small grammar of our own."""
