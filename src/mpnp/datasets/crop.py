"""Crop and resize photographs to one small shape."""

import contextlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from mpnp.errors import InputError, first_line

__all__ = ["read_picture"]

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are decoded. Pillow knows many more, some of which start other programs, or take minutes for a small file."""

MOST_PIXELS = 64_000_000
MOST_SCANS = 100
"""Limits on what is decoded, so that no picture takes minutes. Progressive JPEGs have about ten scans."""


def read_picture(
    source: Any, shape: tuple[int, int, int], name: object = None, remedy: str = "save it again as PNG or JPEG"
) -> UInt8[np.ndarray, "height width channels"]:
    """Crop a picture to the largest centred part with the target proportions, and resize it to `shape`.

    The EXIF orientation is applied, and transparent areas become white. `source` is a path or an open file; `name` and
    `remedy` are for error messages.
    """
    from PIL import Image  # only photographs need it

    height, width, channels = shape
    try:
        with Path(source).open("rb") if isinstance(source, (str, Path)) else contextlib.nullcontext(source) as file:
            picture = _decode(file).convert("L" if channels == 1 else "RGB")
    except FileNotFoundError:
        raise InputError(f"{name or source} does not exist; give the path of a picture") from None
    except Image.DecompressionBombError:
        raise InputError(f"{name or source} has too many pixels; save a smaller version") from None
    except Exception as error:  # decoders raise anything, from SyntaxError to struct.error
        raise InputError(f"{name or source} cannot be read as a picture ({first_line(error)}); {remedy}") from None
    scale = min(picture.width / width, picture.height / height)
    kept_width, kept_height = round(scale * width), round(scale * height)
    left, top = (picture.width - kept_width) // 2, (picture.height - kept_height) // 2
    # Crop first: resize with its box argument would mix in pixels from beyond the edge.
    picture = picture.crop((left, top, left + kept_width, top + kept_height))
    picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(picture, np.uint8).reshape(shape)


def _decode(file: Any) -> Any:
    """The picture in a file, upright, on white and with 8 bits per channel. Its size is checked before it is decoded."""
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit here is another one
        picture = Image.open(file, formats=FORMATS)
    if picture.width * picture.height > MOST_PIXELS:
        raise Image.DecompressionBombError
    if picture.format in ("JPEG", "MPO"):
        _require_few_scans(file)
    return _opaque(_eight_bits(ImageOps.exif_transpose(picture)))


def _require_few_scans(file: Any) -> None:
    """A JPEG of a few kilobytes can hold thousands of scans, each of which takes as long as a picture."""
    place = file.tell()
    file.seek(0)
    scans = file.read().count(b"\xff\xda")
    file.seek(place)
    if scans > MOST_SCANS:
        raise ValueError(f"{scans} scans are too many")


def _opaque(picture: Any) -> Any:
    """Put a picture on white. The colour under transparent pixels is arbitrary, and often black like the ink."""
    from PIL import Image

    if not picture.has_transparency_data:
        return picture
    picture = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)


def _eight_bits(picture: Any) -> Any:
    """Scale 16-bit grey values, as scientific cameras make, to 8 bits. A plain conversion would turn them white."""
    from PIL import Image

    if not picture.mode.startswith("I") and picture.mode != "F":
        return picture
    values = np.asarray(picture, np.float64)
    scale = 257 if values.max() > 255 else 1
    return Image.fromarray((values / scale).clip(0, 255).astype(np.uint8))
