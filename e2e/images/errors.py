"""What can go wrong with images, in one sentence for whoever builds them."""


class ImagesError(Exception):
    """An image could not be built, kept or tried; the text says why."""
