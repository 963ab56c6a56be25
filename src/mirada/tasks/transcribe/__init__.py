"""transcribe: recordings in, the words that are said in them out."""
