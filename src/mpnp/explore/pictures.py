"""Models of images on a page: what it must know, and how it completes the pixels that are shown to a model."""

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, UInt8

from mpnp.datasets.crop import read_picture
from mpnp.datasets.prepared import OWN, SHAPES, image_shape
from mpnp.errors import InputError, show
from mpnp.explore.fields import known_name, whole
from mpnp.inference.completion import Completion, complete
from mpnp.inference.model import FittedModel

__all__ = ["Pictures", "is_model_of_images"]

EXAMPLE = Path(__file__).parent / "page" / "three.png"
"""A digit drawn by hand, to start with."""

MOST_DRAWS, MOST_PIXELS = 16, 64 * 64

Picture = UInt8[np.ndarray, "height width channel"]


def is_model_of_images(model: FittedModel) -> bool:
    """Whether the model was trained on an image set."""
    task = str(model.card.about.get("task"))
    return task in SHAPES or task.startswith(OWN)


@dataclasses.dataclass(frozen=True)
class Pictures:
    """Models of images of one shape, by name, and pictures to start with. Answers requests one after another."""

    models: Mapping[str, FittedModel]
    shape: tuple[int, int, int]
    start: Mapping[str, Picture]
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock, repr=False)

    @staticmethod
    def of(models: Mapping[str, FittedModel], files: Sequence[Path] = ()) -> "Pictures":
        """Pictures to start with are those of the files, or a digit."""
        shapes = {image_shape(str(model.card.about["task"])) for model in models.values()}
        if len(shapes) > 1:
            raise InputError(f"models of images of {len(shapes)} shapes cannot be on one page; explore them one by one")
        (shape,) = shapes
        if shape[0] * shape[1] > MOST_PIXELS:
            raise InputError(
                f"only images of at most {MOST_PIXELS:,} pixels can be explored, but these have {shape[0] * shape[1]:,}"
            )
        chosen = files or ([EXAMPLE] if shape == (28, 28, 1) else [])
        return Pictures(models, shape, {path.stem: read_picture(path, shape) for path in chosen})

    def describe(self) -> dict[str, Any]:
        """What the page must know."""
        from mpnp.models.registry import find_model

        models = [{"name": name, "about": find_model(model.card.model).title} for name, model in self.models.items()]
        pictures = [
            {"name": name, "pixels": picture.reshape(-1, self.shape[2]).tolist()} for name, picture in self.start.items()
        ]
        return {"models": models, "shape": list(self.shape), "pictures": pictures}

    def __call__(self, content: Any) -> dict[str, Any]:
        """Mean, standard deviation and sampled images, given some pixels; colours are bytes, one row per pixel."""
        if not isinstance(content, dict):
            raise InputError(f"a request must be a JSON object, got {show(content)}")
        model, draws = self.models[known_name(content, self.models)], whole(content, "draws", 1, MOST_DRAWS)
        image, shown = self._read(content.get("pixels"))
        with self._lock:
            return _as_bytes(complete(model.network, image, shown, num_samples=draws))

    def close(self) -> None:
        """Wait for the answer under way and give no more."""
        self._lock.acquire()

    def _read(self, pixels: Any) -> tuple[Picture, Bool[np.ndarray, "height width"]]:
        """An image and the mask of the pixels that are shown, from a list of rows: place, then a byte per channel."""
        height, width, channels = self.shape
        if not isinstance(pixels, list) or len(pixels) > height * width:
            raise InputError(f"pixels must be a list of at most {height * width} pixels, got {show(pixels)}")
        image, shown = np.zeros((height * width, channels), np.uint8), np.zeros(height * width, bool)
        for row in pixels:
            if not isinstance(row, list) or len(row) != 1 + channels or not all(type(number) is int for number in row):
                raise InputError(f"a pixel must be a list of its place and {channels} colours, got {show(row)}")
            place, *colours = row
            if not (0 <= place < height * width and all(0 <= colour < 256 for colour in colours)):
                raise InputError(f"places must lie below {height * width} and colours below 256, got {show(row)}")
            image[place], shown[place] = colours, True
        return image.reshape(self.shape), shown.reshape(height, width)


def _as_bytes(completion: Completion) -> dict[str, Any]:
    """What the page shows; standard deviations are relative to the range of colours."""

    def rows(values: np.ndarray) -> list[Any]:
        return np.rint(255 * values).astype(int).reshape(-1, completion.image.shape[2]).tolist()

    draws = completion.draws if len(completion.predictive.loc) > 1 else []
    return {
        "mean": rows(completion.mean),
        "std": np.round(completion.std.ravel(), 4).tolist(),
        "draws": [rows(draw) for draw in draws],
        # Without a pixel there is nothing to be unlike the training images.
        "implausible": bool(completion.shown.any() and completion.log_likelihood < 0),
    }
