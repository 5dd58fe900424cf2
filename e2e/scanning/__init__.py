"""Known holes of what is in an image, by a scanner that is kept elsewhere, and which may stay."""
