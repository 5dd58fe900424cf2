"""Errors of image builds. Each message is one sentence for the user who builds."""


class ImagesError(Exception):
    """An image could not be built, stored, or tested; the text gives the reason."""
