"""What all tasks share: from a request to a trained run, and from a run to answers. Nothing here knows what a text is."""
