"""recognize: a picture in, its class out."""
