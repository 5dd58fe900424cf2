"""Errors of image builds, each a sentence for the builder."""


class ImagesError(Exception):
    """An image could not be built, stored, or tested; the text gives the reason."""
