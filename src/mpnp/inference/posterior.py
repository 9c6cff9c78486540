"""The posterior of one function, in the user's units."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError, show, unknown_name
from mpnp.inference.card import ModelCard
from mpnp.inference.draws import Draws
from mpnp.inference.forecasters import AbstractForecaster
from mpnp.inference.functions import DrawnFunctions, Functions
from mpnp.inference.ood import warn_outside
from mpnp.inference.prediction import Prediction
from mpnp.inference.predictor import round_up
from mpnp.inference.resampler import FARTHEST, MOST, FutureInputs, choose_num_future
from mpnp.options import require_count, require_seed
from mpnp.tables.columns import Schema
from mpnp.tables.frames import is_frame, read_noise
from mpnp.tables.points import context_points, target_inputs
from mpnp.tables.quantiles import DEFAULT_QUANTILES
from mpnp.tables.rows import read_context, read_inputs, read_outputs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mpnp.plotting.posterior import PosteriorCurve

__all__ = ["Posterior"]

PLOTTED_POINTS = 200
"""Number of inputs at which a curve is plotted."""

METHODS = ("resample", "generate")
"""How to draw functions: by predictive resampling, or by the model's own mechanism."""

JOINTS = ("chain", "mixture")
"""How to compute a joint density: by the chain rule, or as a mixture of the model's own functions."""

DRAWS_FOR_MOMENTS = 128
"""Number of functions from which `between_std` and `within_std` are computed."""

MOST_DRAWS = 1_000_000
"""Largest number of functions that are drawn."""

DRAWS_AT_ONCE = 256
"""Number of functions drawn at once. More are drawn in several turns, which bounds memory."""


@runtime_checkable
class Conditions(Protocol):
    """What a posterior needs of its model: units and training range, what predicts, and conditioning on more rows."""

    card: ModelCard
    forecaster: AbstractForecaster

    def condition(self, X: Any = (), y: Any = None, *, num_samples: int = ...) -> "Posterior":
        """The posterior given rows of X and y."""
        ...


class Posterior:
    """The posterior of one function given its observed rows. Conditioning trains nothing, so it is instant.

    Results are in the user's units; where X is a data frame, predictions are data frames too. `predict`, `log_prob` and `cdf`
    use a mixture of `num_samples` functions from the model's own mechanism.
    """

    def __init__(
        self,
        model: Conditions,
        x: Float[np.ndarray, "row input"],
        y: Float[np.ndarray, "row output"],
        *,
        num_samples: int,
    ) -> None:
        self.model, self.x, self.y, self.num_samples = model, x, y, num_samples
        self._context = context_points(model.card.columns, x, y)

    def __repr__(self) -> str:
        """The model, and how many rows it is conditioned on."""
        columns = self.columns
        inputs, outputs = ", ".join(columns.inputs), ", ".join(columns.outputs)
        return f"Posterior({self.model.card.model}: {outputs} given {inputs}; {len(self.x):,} observed rows)"

    @property
    def columns(self) -> Schema:
        """Names and encoders of the columns."""
        return self.model.card.columns

    def add(self, X: Any, y: Any = None) -> "Posterior":
        """The posterior after more rows, the same as conditioning on all rows at once."""
        x_new, y_new = read_context(self.columns, X, y)
        x, outputs = np.concatenate([self.x, x_new]), np.concatenate([self.y, y_new])
        return self.model.condition(x, outputs, num_samples=self.num_samples)

    def predict(
        self,
        X: Any,
        output_type: str = "mean",
        *,
        quantiles: Sequence[float] = DEFAULT_QUANTILES,
        return_std: bool = False,
    ) -> Any:
        """Predict observations, noise included, at the rows of X.

        If the model was fitted with columns of known noise, it predicts the quantity without that noise; where X is a data
        frame with these columns, the measurements.

        `output_type` is "mean", "std", "quantiles" (a last axis or a column per level) or "full", which is everything: a data
        frame that starts with the inputs if X is a data frame, else a dictionary of arrays. Arrays of a model with one output
        have no output axis. `return_std` returns mean and standard deviation as a pair, as scikit-learn's processes do.
        """
        prediction = self.prediction(X)
        if return_std:
            return prediction.arrays("mean", quantiles), prediction.arrays("std", quantiles)
        return prediction.frame(output_type, quantiles, X) if is_frame(X) else prediction.arrays(output_type, quantiles)

    def prediction(self, X: Any) -> Prediction:
        """The prediction at the rows of X, as an object with moments, quantiles and densities."""
        x = self._read_query(X)
        answer = self.model.forecaster.predictor(self.num_samples)(self._context, target_inputs(self.columns, x))
        return Prediction.decode(answer, self.columns).with_noise(read_noise(self.columns, X))

    def between_std(self, X: Any) -> np.ndarray:
        """Standard deviation of resampled functions: uncertainty that more observations would reduce."""
        functions = self._functions(self._read_query(X), DRAWS_FOR_MOMENTS).values
        return functions.squeeze(functions.between_std)

    def within_std(self, X: Any) -> np.ndarray:
        """Root-mean-square standard deviation of observations around resampled functions: their noise, at least `sigma_min`."""
        functions = self._functions(self._read_query(X), DRAWS_FOR_MOMENTS).values
        return functions.squeeze(functions.within_std)

    def log_prob(self, X: Any, y: Any) -> Float[np.ndarray, " row"]:
        """Log density of each row's observed outputs, marginally over the other rows."""
        prediction = self.prediction(X)
        return prediction.log_prob(read_outputs(self.columns, y, prediction.num_rows))

    def joint_log_prob(self, X: Any, y: Any, *, method: str = "chain", num_orders: int = 4, seed: int = 0) -> float:
        """Joint log density of all observed outputs of all rows.

        `method="chain"` uses the chain rule: it sums one-step predictions of each point given the context and the points
        before it, and averages over `num_orders` random orders, or keeps the ascending order for a model trained to
        continue the beginning of a curve. `method="mixture"` uses an equal mixture of `num_samples`
        functions from the model's own mechanism, which underestimates the density if only few of them fit.
        """
        x = self._read_query(X)
        outputs = read_outputs(self.columns, y, len(x))
        if method not in JOINTS:
            raise unknown_name("method", str(method), JOINTS, f"Choose one of: {', '.join(JOINTS)}.")
        if method == "chain" and read_noise(self.columns, X) is not None:
            raise InputError(
                "the chain rule does not know the noise of single measurements; drop "
                f"{', '.join(self.columns.noise)} from X, or use method='mixture'"
            )
        if method == "mixture":
            return self.prediction(X).joint_log_prob(outputs)
        require_count("num_orders", num_orders, most=MOST_DRAWS)
        require_seed(seed)
        points = context_points(self.columns, x, outputs)
        chain = self.model.forecaster.resampler.chain_log_prob(self._context, points, num_orders=num_orders, seed=seed)
        return chain + self.columns.log_jacobian(outputs)

    def cdf(self, X: Any, y: Any) -> np.ndarray:
        """Probability of an output below y; NaN where y is."""
        prediction = self.prediction(X)
        return prediction.squeeze(prediction.cdf(read_outputs(self.columns, y, prediction.num_rows)))

    def sample(
        self,
        X: Any,
        n: int = 10,
        seed: int = 0,
        *,
        noise: bool = False,
        method: str = "resample",
        num_future: int | None = None,
        future_inputs: FutureInputs | None = None,
    ) -> Float[np.ndarray, "draw row *output"]:
        """Draw `n` coherent functions at the rows of X, or with `noise=True` new observations of them.

        `method="resample"` is predictive resampling (see `mpnp.inference.resampling`): for each function it draws `num_future`
        future observations, one after another, and predicts from the completed context. By default there are as many as the
        largest context in training has points, but 10 to 30. Their inputs are on the grid that training curves share, if there
        is one, else spread over the training range and that of X. They follow the context if the model was trained to
        continue the beginning of a curve (`context="prefix"`), and are pixels for a model of images. `future_inputs(rng, num)`
        returns other inputs. With `noise=True`, rows with a future observation get that one. `method="generate"` is the
        model's own mechanism, as in the paper; conditional models (cnp, canp, tnp) have none, so all their functions are equal.

        The same seed draws the same functions, whichever rows of the training range they are evaluated at.
        """
        functions = self._functions(self._read_query(X), n, seed, method, num_future, future_inputs)
        functions = functions.with_noise(read_noise(self.columns, X))
        values = functions.observe(np.random.default_rng([seed, 1])) if noise else functions.loc
        return values[..., 0] if len(self.columns.outputs) == 1 else values

    def _functions(
        self,
        x: Float[np.ndarray, "row input"],
        n: int,
        seed: int = 0,
        method: str = "resample",
        num_future: int | None = None,
        future_inputs: FutureInputs | None = None,
    ) -> DrawnFunctions:
        """Draw functions, some at once."""
        require_count("n", n, most=MOST_DRAWS)
        require_seed(seed)
        if method not in METHODS:
            raise unknown_name("method", str(method), METHODS, f"Choose one of: {', '.join(METHODS)}.")
        if not len(x):
            raise InputError("there are no rows to draw functions at")
        if method == "generate" and not (num_future is None and future_inputs is None):
            raise InputError(
                "num_future and future_inputs belong to method='resample': the generator has no future observations"
            )
        num_future = self._check_num_future(num_future)
        turns = []
        for turn, start in enumerate(range(0, n, DRAWS_AT_ONCE)):
            count, turn_seed = min(DRAWS_AT_ONCE, n - start), _seed_of_turn(seed, turn)
            if method == "resample":
                turns.append(
                    self.model.forecaster.resampler(
                        self._context, self.x, x, count, seed=turn_seed, num_future=num_future, future_inputs=future_inputs
                    )
                )
            else:
                answer = self.model.forecaster.predictor(round_up(count))(
                    self._context, target_inputs(self.columns, x), seed=turn_seed
                )
                values = jax.tree.map(lambda part, count=count: np.resize(part, (count, *part.shape[1:])), answer)
                turns.append(Functions.without_observations(values))
        return DrawnFunctions.decode(jax.tree.map(lambda *parts: np.concatenate(parts), *turns), self.columns)

    def _check_num_future(self, num_future: int | None) -> int:
        """The given number if it is in range, or the default."""
        domain = self.model.card.seen
        if num_future is None:
            return choose_num_future(domain)
        require_count("num_future", num_future)
        most = max(MOST, FARTHEST * domain.largest_context - len(self.x))
        if num_future > most:
            raise InputError(
                f"num_future must lie between 1 and {most}, got {num_future}: contexts would otherwise grow far beyond the "
                f"{domain.largest_context} rows of training"
            )
        return num_future

    def functional(
        self, fn: Callable[[np.ndarray], Any], X: Any, *, n: int = 256, seed: int = 0, noise: bool = False, **options: Any
    ) -> Draws:
        """The posterior of any quantity of the function, such as its maximum over X: applies `fn` to `n` sampled functions.

        `fn` takes the values of one function at the rows of X and returns a number or an array. Further options are those of
        `sample`.
        """
        if not callable(fn):
            raise InputError(f"fn must be a function of the values of one sampled function, got {show(fn)}")
        values = [_as_numbers(fn(draw)) for draw in self.sample(X, n, seed, noise=noise, **options)]
        if len({value.shape for value in values}) > 1:
            raise InputError("fn must return arrays of the same shape for all functions; use NaN for missing values")
        return Draws(np.stack(values))

    def to_arviz(self, X: Any, n: int = 256, seed: int = 0, **options: Any) -> Any:
        """Drawn functions at the rows of X for ArviZ; needs the extra `arviz`.

        The group `posterior` has the functions, by the names of the outputs; `observed_data` has the context, and
        `constant_data` the inputs of both. Further options are those of `sample`.
        """
        from mpnp.inference.arviz import to_inference_data

        x = read_inputs(self.columns, X)
        functions = self.sample(X, n, seed, **options).reshape(n, len(x), len(self.columns.outputs))
        return to_inference_data(self.columns, (self.x, self.y), x, functions)

    def plot(self, X: Any = None, *, output: str | None = None, ax: "Axes | None" = None, num_draws: int = 10) -> "Axes":
        """Plot context, mean, 90% band and sampled functions against the input, by default over the training range."""
        from mpnp.plotting.posterior import draw_with_legend  # matplotlib takes half a second to import

        return draw_with_legend(self.curve(X, output, num_draws), ax)

    def figure(self, X: Any = None, *, title: str | None = None, num_draws: int = 10) -> "Figure":
        """The same as a figure with one panel per output."""
        from mpnp.plotting.posterior import posterior_figure

        return posterior_figure([self.curve(X, name, num_draws) for name in self.columns.outputs], title=title)

    def curve(self, X: Any, output: str | None, num_draws: int) -> "PosteriorCurve":
        """What a panel of one output shows."""
        from mpnp.plotting.posterior import PosteriorCurve

        require_count("num_draws", num_draws, least=0)
        columns = self.columns
        if len(columns.inputs) != 1:
            raise InputError(f"only models with one input can be plotted, but this one has {len(columns.inputs)}; use predict")
        name = columns.outputs[0] if output is None else output
        if name not in columns.outputs:
            raise unknown_name("output", name, columns.outputs, f"The model predicts: {', '.join(columns.outputs)}.")
        number = columns.outputs.index(name)
        x = self._range() if X is None else np.sort(read_inputs(columns, X), axis=0)
        prediction = self.prediction(x)
        low, high = np.moveaxis(prediction.quantiles([0.05, 0.95])[:, number], -1, 0)
        num_draws = num_draws if self.model.forecaster.has_functions else 0
        draws = (
            self.sample(x, num_draws).reshape(num_draws, len(x), -1)[..., number] if num_draws != 0 else np.zeros((0, len(x)))
        )
        context = self.x[:, 0], self.y[:, number]
        return PosteriorCurve(x[:, 0], prediction.mean[:, number], low, high, draws, context, (columns.inputs[0], name))

    def _range(self) -> Float[np.ndarray, "row 1"]:
        """Inputs that span the training range."""
        seen = self.model.card.seen
        return np.linspace(seen.low[0], seen.high[0], PLOTTED_POINTS)[:, None]

    def _read_query(self, X: Any) -> Float[np.ndarray, "row input"]:
        x = read_inputs(self.columns, X)
        warn_outside(self.model.card, x)
        return x


def _as_numbers(value: Any) -> Float[np.ndarray, "..."]:
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"fn must return a number or an array of numbers, got {show(value)}") from None


def _seed_of_turn(seed: int, turn: int) -> int:
    """Later turns use hashed seeds, so that draws with neighbouring seeds share no functions."""
    return int(np.random.SeedSequence([seed, turn]).generate_state(1)[0]) if turn else seed
