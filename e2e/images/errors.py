"""What can go wrong with images, in one sentence for the person who builds them."""


class ImagesError(Exception):
    """An image could not be built, kept or tried; the text says why."""
