"""A prediction at the rows of a table, in the user's units, as arrays or as a frame."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError, unknown_name
from mpnp.networks.predictive import Predictive
from mpnp.units import Units

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DEFAULT_QUANTILES", "OUTPUT_TYPES", "Prediction", "quantile_name", "require_levels"]

DEFAULT_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
OUTPUT_TYPES = ("mean", "std", "quantiles", "full")

RowOutput = Float[np.ndarray, "row output"]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The mixture at each row and output. Kept in the network's units, told in the user's: those may need float64."""

    mixture: Predictive
    units: Units

    @property
    def mean(self) -> RowOutput:
        """Mean of the mixture."""
        return self.units.normaliser.y.undo(np.asarray(self.mixture.mean))

    @property
    def std(self) -> RowOutput:
        """Standard deviation of the mixture."""
        return self._scaled(self.mixture.std)

    @property
    def between_std(self) -> RowOutput:
        """Spread of the functions around their mean: what more observations would reduce."""
        return self._scaled(self.mixture.between_std)

    @property
    def within_std(self) -> RowOutput:
        """The functions' own standard deviations, root mean square: noise, and whatever the floor on them absorbs."""
        return self._scaled(self.mixture.within_std)

    def quantiles(self, levels: Sequence[float]) -> Float[np.ndarray, "row output level"]:
        """The values that an output stays below with these probabilities."""
        values = [np.asarray(self.mixture.quantile(level)) for level in require_levels(levels)]
        # Bisection ends within rounding of the quantile, so that near levels could come out in the wrong order.
        ascending = np.argsort(levels, kind="stable")
        ordered = np.maximum.accumulate(np.stack(values, axis=-1)[..., ascending], axis=-1)[..., np.argsort(ascending)]
        return np.moveaxis(self.units.normaliser.y.undo(np.moveaxis(ordered, -1, 0)), 0, -1)

    def cdf(self, y: RowOutput) -> RowOutput:
        """Probability of an output below y; NaN where y is."""
        below = self.mixture.cdf(jnp.asarray(self.units.normaliser.y.apply(y), jnp.float32))
        return np.where(np.isnan(y), np.nan, np.asarray(below, np.float64))

    def log_prob(self, y: RowOutput) -> Float[np.ndarray, " row"]:
        """Log density of the observed outputs of each row by itself; NaN for a row that has none."""
        of_rows = self._function_log_density(y).sum(axis=-1)
        return np.where(np.isnan(y).all(axis=-1), np.nan, _log_mean_exp(of_rows))

    def marginal_log_prob(self, y: RowOutput) -> RowOutput:
        """Log density of each output by itself; NaN where y is."""
        return np.where(np.isnan(y), np.nan, _log_mean_exp(self._function_log_density(y)))

    def crps(self, y: RowOutput) -> RowOutput:
        """Continuous ranked probability score of each output, in its units; smaller is better. NaN where y is."""
        score = self._scaled(self.mixture.crps(jnp.asarray(self.units.normaliser.y.apply(y), jnp.float32)))
        return np.where(np.isnan(y), np.nan, score)

    def joint_log_prob(self, y: RowOutput) -> float:
        """Log density of all observed outputs of all rows together."""
        return float(_log_mean_exp(self._function_log_density(y).sum(axis=(-2, -1))))

    def arrays(self, output_type: str, levels: Sequence[float]) -> "np.ndarray | dict[str, np.ndarray]":
        """What was asked for, without the axis of outputs if there is one output."""
        makers = {
            "mean": lambda: self._squeeze(self.mean),
            "std": lambda: self._squeeze(self.std),
            "quantiles": lambda: self._squeeze(self.quantiles(levels)),
            "full": lambda: {
                "mean": self._squeeze(self.mean),
                "std": self._squeeze(self.std),
                "quantiles": self._squeeze(self.quantiles(levels)),
                "between_std": self._squeeze(self.between_std),
                "within_std": self._squeeze(self.within_std),
            },
        }
        if output_type not in makers:
            raise unknown_name("output_type", str(output_type), makers, f"Choose one of: {', '.join(makers)}.")
        return makers[output_type]()

    def frame(self, output_type: str, levels: Sequence[float], inputs: "pd.DataFrame") -> "pd.DataFrame | pd.Series[Any]":
        """What was asked for under the rows' own index; a full prediction stands beside its inputs."""
        import pandas as pd

        content = self.arrays(output_type, levels)
        named = content if isinstance(content, dict) else {output_type: content}
        columns = {}
        for name, values in named.items():
            for output, prefix in enumerate(self._prefixes()):
                of_output = values if len(self.units.columns.outputs) == 1 else values[:, output]
                if name == "quantiles":
                    columns |= {f"{prefix}{quantile_name(level)}": of_output[:, i] for i, level in enumerate(levels)}
                else:
                    columns[f"{prefix}{name}"] = of_output
        result = pd.DataFrame(columns, index=inputs.index)
        if output_type == "full":
            return pd.concat([inputs[list(self.units.columns.inputs)], result], axis=1)
        return result.iloc[:, 0] if result.shape[1] == 1 and output_type != "quantiles" else result

    def _prefixes(self) -> list[str]:
        outputs = self.units.columns.outputs
        return [""] if len(outputs) == 1 else [f"{name}_" for name in outputs]

    def _squeeze(self, values: Float[np.ndarray, "row output *rest"]) -> np.ndarray:
        return values[:, 0] if values.shape[1] == 1 else values

    def _scaled(self, spread: Any) -> RowOutput:
        return np.asarray(spread, np.float64) * self.units.normaliser.y.scale

    def _function_log_density(self, y: RowOutput) -> Float[np.ndarray, "sample row output"]:
        """Log density of each output under each function, zero where it was not observed."""
        loc, scale = (np.asarray(part, np.float64) for part in (self.mixture.loc, self.mixture.scale))
        distance = (self.units.normaliser.y.apply(y) - loc) / scale
        log_density = -(distance**2) / 2 - np.log(scale * self.units.normaliser.y.scale) - np.log(2 * np.pi) / 2
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


def _log_mean_exp(values: Float[np.ndarray, "sample *rest"]) -> Any:
    return np.logaddexp.reduce(values, axis=0) - np.log(len(values))
