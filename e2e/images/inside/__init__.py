"""What runs while an image is built: each module a script, on the standard library alone."""
