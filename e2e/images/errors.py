"""Errors of image builds. Each message is one sentence for the user who builds."""


class ImagesError(Exception):
    """Raised if an image could not be built, stored, or tested. The text gives the reason."""
