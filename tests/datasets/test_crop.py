"""A user's pictures: turned, laid on white and cut to the shape of the model."""

import numpy as np
import pytest
from PIL import Image

from mpnp.datasets.crop import read_picture
from mpnp.errors import InputError


def test_a_picture_is_turned_as_the_camera_was_held(tmp_path):
    upright = np.arange(0, 240, 15, dtype=np.uint8).reshape(4, 4)
    orientation = Image.Exif()
    orientation[0x0112] = 6  # to be turned clockwise by a quarter
    Image.fromarray(np.rot90(upright)).save(tmp_path / "turned.png", exif=orientation)
    np.testing.assert_array_equal(read_picture(tmp_path / "turned.png", (4, 4, 1))[..., 0], upright)


@pytest.mark.parametrize("mode, clear, black", [("RGBA", (0, 0, 0, 0), (0, 0, 0, 255)), ("LA", (0, 0), (0, 255))])
def test_a_transparent_picture_lies_on_white(tmp_path, mode, clear, black):
    picture = Image.new(mode, (4, 4), clear)
    picture.putpixel((1, 2), black)
    picture.save(tmp_path / "clear.png")
    expected = np.full((4, 4, 3), 255)
    expected[2, 1] = 0
    np.testing.assert_array_equal(read_picture(tmp_path / "clear.png", (4, 4, 3)), expected)


def test_a_picture_is_cut_to_the_proportions_of_the_model(tmp_path, monkeypatch):
    path = tmp_path / "wide.png"
    picture = np.zeros((40, 100), np.uint8)
    picture[:, 30:70] = 200
    Image.fromarray(picture).save(path)
    assert read_picture(path, (8, 8, 1)).tolist() == np.full((8, 8, 1), 200).tolist()
    assert read_picture(path, (4, 10, 3)).shape == (4, 10, 3)
    ramp = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
    Image.fromarray(ramp).save(path)  # 16 bits a pixel
    small = read_picture(path, (8, 8, 1))
    assert small.min() < 30 and small.max() > 225 and len(np.unique(small)) > 5
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000)
    with pytest.raises(InputError, match=r"wide\.png has too many pixels; save a smaller version"):
        read_picture(path, (8, 8, 1))
    path.write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"wide\.png cannot be read as a picture"):
        read_picture(path, (8, 8, 1))
