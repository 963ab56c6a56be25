"""caption: a picture in, a sentence about it out."""
