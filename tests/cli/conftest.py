"""A folder of official image files."""

from helpers.image_files import folder as folder
