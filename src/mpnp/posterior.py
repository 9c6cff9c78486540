"""The posterior of one function in the user's units: condition, then ask."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from mpnp.data.frames import is_frame
from mpnp.data.questions import read_context, read_inputs, read_outputs
from mpnp.errors import InputError
from mpnp.options import require_seed
from mpnp.prediction import DEFAULT_QUANTILES, Prediction
from mpnp.predictor import round_up
from mpnp.units import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mpnp.fitted import FittedModel

__all__ = ["Draws", "Posterior"]

DRAWS_AT_ONCE = 256
"""Functions drawn in one call; more are drawn in turns, so that memory stays flat."""


@dataclasses.dataclass(frozen=True)
class Draws:
    """The posterior of a quantity as equally likely values.

    A function that lacks the quantity, such as one that never crosses a threshold, has NaN; mean, spread and quantiles are
    those of the functions that have it, and `exists` says how many these are.
    """

    values: Float[np.ndarray, "draw *rest"]

    @property
    def exists(self) -> Any:
        """The probability that there is such a quantity: the share of draws that are numbers."""
        return 1 - np.isnan(self.values).mean(axis=0)

    @property
    def mean(self) -> Any:
        """Mean over the draws."""
        return np.nanmean(self.values, axis=0)

    @property
    def std(self) -> Any:
        """Standard deviation over the draws."""
        return np.nanstd(self.values, axis=0)

    def quantile(self, level: float | Sequence[float]) -> Any:
        """The value that the quantity stays below with probability `level`."""
        return np.nanquantile(self.values, level, axis=0)

    def interval(self, probability: float = 0.9) -> tuple[Any, Any]:
        """The central interval of this probability."""
        low, high = self.quantile([(1 - probability) / 2, (1 + probability) / 2])
        return low, high


class Posterior:
    """What a model believes about one function, given the rows seen of it. Nothing is trained, so it is there at once.

    Every answer is in the user's units, and in pandas if the question was. `num_samples` functions stand for the posterior
    in `predict`, `log_prob` and `cdf`.
    """

    def __init__(
        self,
        model: "FittedModel",
        x: Float[np.ndarray, "row input"],
        y: Float[np.ndarray, "row output"],
        *,
        num_samples: int,
    ) -> None:
        self.model, self.x, self.y, self.num_samples = model, x, y, num_samples
        self._context = model.units.context(x, y)

    @property
    def units(self) -> Units:
        """Names and scales of the columns."""
        return self.model.units

    def add(self, X: Any, y: Any = None) -> "Posterior":
        """The posterior after more rows: the same as conditioning on all of them at once."""
        x_new, y_new = read_context(self.units.columns, X, y)
        x, outputs = np.concatenate([self.x, x_new]), np.concatenate([self.y, y_new])
        return self.model.condition(x, outputs, num_samples=self.num_samples)

    def predict(self, X: Any, output_type: str = "mean", *, quantiles: Sequence[float] = DEFAULT_QUANTILES) -> Any:
        """Predict the outputs, noise included, at the rows of X.

        `output_type` is "mean", "std", "quantiles" (one more axis, or one column a level), or "full": everything, as a frame
        beside the inputs if X is one, as a dictionary of arrays if not. Of a model with one output, the axis of outputs is
        left out.
        """
        prediction = self.prediction(X)
        return prediction.frame(output_type, quantiles, X) if is_frame(X) else prediction.arrays(output_type, quantiles)

    def prediction(self, X: Any) -> Prediction:
        """The prediction at the rows of X as an object that knows its moments, quantiles and densities."""
        x = self._read_query(X)
        answer = self.model.predictor(self.num_samples)(self._context, self.units.targets(x))
        return Prediction(*self.units.rows(answer), self.units.columns)

    def between_std(self, X: Any) -> np.ndarray:
        """Spread of the posterior's functions around their mean: what more observations would reduce."""
        prediction = self.prediction(X)
        return prediction.squeeze(prediction.between_std)

    def within_std(self, X: Any) -> np.ndarray:
        """The functions' own standard deviations, root mean square: noise, and whatever the floor on them absorbs."""
        prediction = self.prediction(X)
        return prediction.squeeze(prediction.within_std)

    def log_prob(self, X: Any, y: Any) -> Float[np.ndarray, " row"]:
        """Log density of the observed outputs of each row by itself."""
        prediction = self.prediction(X)
        return prediction.log_prob(read_outputs(self.units.columns, y, prediction.num_rows))

    def joint_log_prob(self, X: Any, y: Any) -> float:
        """Log density of all observed outputs of all rows together."""
        prediction = self.prediction(X)
        return prediction.joint_log_prob(read_outputs(self.units.columns, y, prediction.num_rows))

    def cdf(self, X: Any, y: Any) -> np.ndarray:
        """Probability of an output below y; NaN where y is."""
        prediction = self.prediction(X)
        return prediction.squeeze(prediction.cdf(read_outputs(self.units.columns, y, prediction.num_rows)))

    def sample(self, X: Any, n: int = 10, seed: int = 0, *, noise: bool = False) -> Float[np.ndarray, "draw row *output"]:
        """`n` coherent functions at the rows of X, or with `noise=True` observations of them.

        The same seed draws the same functions, wherever they are looked at. A model without functional uncertainty (cnp,
        canp) has one function and repeats it.
        """
        if n < 1:
            raise InputError(f"n must be at least 1, got {n}")
        require_seed(seed)
        targets = self.units.targets(self._read_query(X))
        locs, scales = [], []
        for turn, start in enumerate(range(0, n, DRAWS_AT_ONCE)):
            count = min(DRAWS_AT_ONCE, n - start)
            answer = self.model.predictor(round_up(count))(self._context, targets, seed=_seed_of_turn(seed, turn))
            for parts, part in zip((locs, scales), self.units.rows(answer), strict=True):
                parts.append(np.resize(part, (count, *part.shape[1:])))
        values = np.concatenate(locs)
        if noise:
            values += np.concatenate(scales) * np.random.default_rng([seed, 1]).standard_normal(values.shape)
        return values[..., 0] if self.units.num_outputs == 1 else values

    def functional(self, fn: Callable[[np.ndarray], Any], X: Any, *, n: int = 256, seed: int = 0, noise: bool = False) -> Draws:
        """The posterior of any quantity of the function, such as its maximum over X: `fn` of each of `n` functions.

        `fn` gets one function's values at the rows of X and returns a number or an array of numbers.
        """
        values = [np.asarray(fn(draw), np.float64) for draw in self.sample(X, n, seed, noise=noise)]
        if len({value.shape for value in values}) > 1:
            raise InputError("fn must return as many numbers for each function; return NaN where there is none")
        return Draws(np.stack(values))

    def plot(self, X: Any = None, *, output: str | None = None, ax: "Axes | None" = None, num_draws: int = 10) -> "Axes":
        """Context, mean, 90% band and function draws against the input; over the range of training unless X says where."""
        from mpnp.posterior_plot import draw_posterior  # here, because matplotlib takes half a second to import

        return draw_posterior(self, X, output=output, ax=ax, num_draws=num_draws)

    def _read_query(self, X: Any) -> Float[np.ndarray, "row input"]:
        x = read_inputs(self.units.columns, X)
        self.model.warn_outside(x)
        return x


def _seed_of_turn(seed: int, turn: int) -> int:
    """Seeds of later turns are far from any that a user gives, so that draws of two seeds have no function in common."""
    return int(np.random.SeedSequence([seed, turn]).generate_state(1)[0]) if turn else seed
