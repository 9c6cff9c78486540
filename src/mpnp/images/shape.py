"""Photographs of any size as small pictures of one shape."""

import zlib
from typing import Any
from zipfile import BadZipFile

import numpy as np
from jaxtyping import UInt8

from mpnp.errors import InputError

__all__ = ["read_picture"]


def read_picture(
    source: Any, shape: tuple[int, int, int], name: object = None, remedy: str = "save it anew as PNG or JPEG"
) -> UInt8[np.ndarray, "height width channels"]:
    """The largest part around the middle of a picture that has the proportions asked for, at that height and width.

    The picture is taken as viewers show it: turned as the camera was held, on white where it is transparent. `source` is a path
    or an open file; `name` is what an error calls it, and `remedy` what it advises.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError  # here, because it is needed for photographs only

    height, width, channels = shape
    try:
        with Image.open(source) as picture:
            picture = _opaque(_eight_bits(ImageOps.exif_transpose(picture))).convert("L" if channels == 1 else "RGB")
    except FileNotFoundError:
        raise InputError(f"{name or source} does not exist; name a picture") from None
    except Image.DecompressionBombError:
        raise InputError(f"{name or source} has more pixels than any photograph; save it smaller") from None
    except (OSError, UnidentifiedImageError, ValueError, BadZipFile, zlib.error) as error:
        raise InputError(f"{name or source} cannot be read as a picture ({error}); {remedy}") from None
    scale = min(picture.width / width, picture.height / height)
    kept_width, kept_height = round(scale * width), round(scale * height)
    left, top = (picture.width - kept_width) // 2, (picture.height - kept_height) // 2
    # Cut first: with its box argument, resize would let pixels beyond the edge shine in.
    picture = picture.crop((left, top, left + kept_width, top + kept_height))
    picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(picture, np.uint8).reshape(shape)


def _opaque(picture: Any) -> Any:
    """A picture on white: what lies under transparent pixels is arbitrary, and often black like the ink."""
    from PIL import Image

    if not picture.has_transparency_data:
        return picture
    picture = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)


def _eight_bits(picture: Any) -> Any:
    """A picture of 16-bit greys, as scientific cameras make, scaled to 8 bits: converted as it is, it would be white."""
    from PIL import Image

    if not picture.mode.startswith("I") and picture.mode != "F":
        return picture
    values = np.asarray(picture, np.float64)
    scale = 257 if values.max() > 255 else 1
    return Image.fromarray((values / scale).clip(0, 255).astype(np.uint8))
