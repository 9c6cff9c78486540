"""The paper's protocol in numbers: sizes and input ranges of tasks. Importing it needs no JAX."""

__all__ = [
    "CURVE_POINTS",
    "FULL_SIZE",
    "FUNCTION_POINTS",
    "FUNCTION_RANGE",
    "IMAGE_POINTS",
    "IMAGE_RANGE",
    "MOST_SURFACE_INPUTS",
]

FULL_SIZE = 25_600
"""Number of tasks in a full validation or test set."""

FUNCTION_POINTS, FUNCTION_RANGE = 50, (-2.0, 2.0)
"""Points of the largest task of a function, and where its inputs lie."""

CURVE_POINTS = 96
"""Points of the largest task of the broad prior over curves."""

MOST_SURFACE_INPUTS = 6
"""Inputs of the broad prior over functions of several inputs; tasks that use fewer have the others at 0."""

IMAGE_POINTS, IMAGE_RANGE = 200, (-0.5, 0.5)
"""Pixels of a training task, and the range of positions and colours. The largest context has three pixels fewer, which leaves
the smallest target."""
