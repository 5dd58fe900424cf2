"""Converts images with an ICC profile to sRGB, which most models and viewers assume."""

from __future__ import annotations

import io
from typing import Any

from strandline_packs.images.pictures import load_pillow, turn

_WITH_ALPHA = {"L": "LA", "P": "RGBA", "RGB": "RGBA"}


class ProfileError(ValueError):
    """Raised if the profile of an image is damaged, or belongs to images of another mode."""


def convert_to_srgb(image: Any) -> Any:  # noqa: ANN401 - Pillow's image
    """Return the image upright and in sRGB, or the image itself if it has no profile.

    Transparency stays.

    Raises:
        ProfileError: the profile is damaged, or belongs to images of another mode.
        ImportError: Pillow is not installed, or has no color management.
    """
    content = image.info.get("icc_profile")
    if not content:
        return image
    image = turn(image)  # the new image has no EXIF data
    if "transparency" in image.info:  # colors that stand for transparent pixels would change
        image = image.convert(_WITH_ALPHA.get(image.mode, image.mode))
    alpha = image.getchannel("A") if image.mode in {"RGBA", "LA", "PA"} else None
    # The profile of an image with a palette describes the colors of the palette.
    plain = image.convert("RGB") if image.mode in {"P", "PA", "RGBA"} else image
    plain = plain.getchannel("L") if plain.mode == "LA" else plain
    cms = load_pillow("ImageCms")
    try:
        profile = cms.ImageCmsProfile(io.BytesIO(content))
        target = cms.createProfile("sRGB")
        converted = cms.profileToProfile(plain, profile, target, outputMode="RGB")
    except (OSError, ValueError, cms.PyCMSError) as error:
        raise ProfileError(str(error)) from error
    if alpha is not None:
        converted.putalpha(alpha)
    return converted
