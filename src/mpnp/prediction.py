"""A prediction at the rows of a table, in the user's units, as arrays or as a frame."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from mpnp.data.curves import Columns
from mpnp.data.frames import Frame
from mpnp.errors import InputError, unknown_name

__all__ = ["DEFAULT_QUANTILES", "Prediction", "quantile_name", "require_levels"]

DEFAULT_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

RowOutput = Float[np.ndarray, "row output"]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """An equal mixture of functions, each a normal distribution of its own mean and standard deviation at every row and output.

    This is `Predictive` in the user's units. Those may need float64, and numbers of rows vary too much to compile for.
    """

    loc: Float[np.ndarray, "sample row output"]
    scale: Float[np.ndarray, "sample row output"]
    columns: Columns

    @property
    def num_rows(self) -> int:
        """Rows predicted at."""
        return self.loc.shape[1]

    @property
    def mean(self) -> RowOutput:
        """Mean of the mixture."""
        return self.loc.mean(axis=0)

    @property
    def std(self) -> RowOutput:
        """Standard deviation of the mixture."""
        return np.sqrt(self.between_std**2 + self.within_std**2)

    @property
    def between_std(self) -> RowOutput:
        """Spread of the functions around their mean: what more observations would reduce."""
        return self.loc.std(axis=0)

    @property
    def within_std(self) -> RowOutput:
        """The functions' own standard deviations, root mean square: noise, and whatever the floor on them absorbs."""
        return np.sqrt((self.scale**2).mean(axis=0))

    def quantiles(self, levels: Sequence[float]) -> Float[np.ndarray, "row output level"]:
        """The values that an output stays below with these probabilities, by bisection on the mixture's distribution."""
        wanted = np.asarray(require_levels(levels))
        # The mixture's quantile lies between the smallest and the largest of its functions' quantiles.
        of_functions = self.loc[..., None] + self.scale[..., None] * ndtri(wanted)
        low, high = of_functions.min(axis=0), of_functions.max(axis=0)
        for _ in range(60):
            middle = (low + high) / 2
            below = ndtr((middle - self.loc[..., None]) / self.scale[..., None]).mean(axis=0) < wanted
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    def cdf(self, y: RowOutput) -> RowOutput:
        """Probability of an output below y; NaN where y is."""
        return ndtr((y - self.loc) / self.scale).mean(axis=0)

    def log_prob(self, y: RowOutput) -> Float[np.ndarray, " row"]:
        """Log density of the observed outputs of each row by itself; NaN for a row that has none."""
        of_rows = self._function_log_density(y).sum(axis=-1)
        return np.where(np.isnan(y).all(axis=-1), np.nan, _log_mean_exp(of_rows))

    def marginal_log_prob(self, y: RowOutput) -> RowOutput:
        """Log density of each output by itself; NaN where y is."""
        return np.where(np.isnan(y), np.nan, _log_mean_exp(self._function_log_density(y)))

    def joint_log_prob(self, y: RowOutput) -> float:
        """Log density of all observed outputs of all rows together."""
        return float(_log_mean_exp(self._function_log_density(y).sum(axis=(-2, -1))))

    def crps(self, y: RowOutput) -> RowOutput:
        """Continuous ranked probability score of each output, in its units; smaller is better. NaN where y is."""
        error = _mean_abs_normal(y - self.loc, self.scale).mean(axis=0)
        apart = np.hypot(self.scale[:, None], self.scale[None])
        return error - _mean_abs_normal(self.loc[:, None] - self.loc[None], apart).mean(axis=(0, 1)) / 2

    def arrays(self, output_type: str, levels: Sequence[float]) -> "np.ndarray | dict[str, np.ndarray]":
        """What was asked for, without the axis of outputs if there is one output."""
        makers = {
            "mean": lambda: self.squeeze(self.mean),
            "std": lambda: self.squeeze(self.std),
            "quantiles": lambda: self.squeeze(self.quantiles(levels)),
            "full": lambda: {
                "mean": self.squeeze(self.mean),
                "std": self.squeeze(self.std),
                "quantiles": self.squeeze(self.quantiles(levels)),
                "between_std": self.squeeze(self.between_std),
                "within_std": self.squeeze(self.within_std),
            },
        }
        if output_type not in makers:
            raise unknown_name("output_type", str(output_type), makers, f"Choose one of: {', '.join(makers)}.")
        return makers[output_type]()

    def frame(self, output_type: str, levels: Sequence[float], inputs: Frame) -> Frame:
        """What was asked for under the rows' own index; a full prediction stands beside its inputs."""
        import pandas as pd

        content = self.arrays(output_type, levels)
        named = content if isinstance(content, dict) else {output_type: content}
        columns = {}
        for name, values in named.items():
            for output, prefix in enumerate(self._prefixes()):
                of_output = values if len(self.columns.outputs) == 1 else values[:, output]
                if name == "quantiles":
                    columns |= {f"{prefix}{quantile_name(level)}": of_output[:, i] for i, level in enumerate(levels)}
                else:
                    columns[f"{prefix}{name}"] = of_output
        result = pd.DataFrame(columns, index=inputs.index)
        if output_type == "full":
            return pd.concat([inputs[list(self.columns.inputs)], result], axis=1)
        return result.iloc[:, 0] if result.shape[1] == 1 and output_type != "quantiles" else result

    def _prefixes(self) -> list[str]:
        outputs = self.columns.outputs
        return [""] if len(outputs) == 1 else [f"{name}_" for name in outputs]

    def squeeze(self, values: Float[np.ndarray, "row output *rest"]) -> np.ndarray:
        """Without the axis of outputs if there is one output."""
        return values[:, 0] if values.shape[1] == 1 else values

    def _function_log_density(self, y: RowOutput) -> Float[np.ndarray, "sample row output"]:
        """Log density of each output under each function, zero where it was not observed."""
        log_density = -(((y - self.loc) / self.scale) ** 2) / 2 - np.log(self.scale) - np.log(2 * np.pi) / 2
        return np.where(np.isnan(y), 0.0, log_density)


def require_levels(levels: Sequence[float]) -> list[float]:
    """Levels strictly between 0 and 1."""
    try:
        numbers = [float(level) for level in levels]
    except (TypeError, ValueError):
        raise InputError(f"quantiles must be a list of numbers between 0 and 1, got {levels!r}") from None
    if not numbers or not all(0 < level < 1 for level in numbers):
        raise InputError(f"quantiles must lie above 0 and below 1, got {numbers}")
    return numbers


def quantile_name(level: float) -> str:
    """A column's name for a quantile.

    >>> quantile_name(0.05), quantile_name(0.5), quantile_name(0.975)
    ('q05', 'q50', 'q97.5')
    """
    percent = f"{100 * level:.6g}"
    return f"q{'0' if 100 * level < 10 else ''}{percent}"


def _mean_abs_normal(mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """$E|X|$ for a normal X."""
    ratio = mean / std
    return std * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2) + mean * (2 * ndtr(ratio) - 1)


def _log_mean_exp(values: Float[np.ndarray, "sample *rest"]) -> Any:
    return np.logaddexp.reduce(values, axis=0) - np.log(len(values))
