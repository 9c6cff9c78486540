"""Predictions at the rows of a table in the user's units, as arrays or as a data frame."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from mpnp.errors import unknown_name
from mpnp.nn.likelihoods.predictive import Predictive, log_mean_exp
from mpnp.tables.columns import Schema
from mpnp.tables.frames import Frame
from mpnp.tables.quantiles import quantile_name, require_levels

__all__ = ["Prediction", "join", "select"]

RowOutput = Float[np.ndarray, "row output"]


PAIRS_AT_ONCE = 2_000_000
"""Pairs of components that a score compares at once, which bounds memory."""

NODES = 64
"""Quantiles that stand for a distribution whose moments have no closed form in the user's units."""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """A prediction in the user's units.

    It uses NumPy in double precision, because some units need it and because row counts vary too much to compile for.
    """

    mixture: Predictive
    """In the network's units, by row and output."""
    columns: Schema

    @staticmethod
    def decode(answer: Predictive, columns: Schema) -> "Prediction":
        """Convert a network's prediction to the rows and units of the table."""
        return Prediction(Predictive(*columns.rows_of(answer.loc, answer.scale), answer.distribution), columns)

    def with_noise(self, noise: RowOutput | None) -> "Prediction":
        """The prediction of measurements with this known noise, in the user's units; None: of the quantity itself."""
        if noise is None:
            return self
        return Prediction(self.mixture.with_noise(self.columns.encode_noise(noise)), self.columns)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.mixture.loc.shape[1]

    @property
    def loc(self) -> Float[np.ndarray, "sample row output"]:
        """Value of each function at each row: the median of observations of it."""
        return self.columns.decode_outputs(self.mixture.loc)

    @property
    def scale(self) -> Float[np.ndarray, "sample row output"]:
        """Scale of the observations of each function, to first order if an output's encoder is not affine."""
        return np.asarray(self.mixture.scale) * self.columns.slopes(np.asarray(self.mixture.loc))

    def observe(self, rng: np.random.Generator) -> Float[np.ndarray, "sample row output"]:
        """One new observation of each function at each row, noise included."""
        shape = self.mixture.loc.shape
        noise = np.asarray(self.mixture.scale) * self.mixture.distribution.quantile(rng.random(shape))
        return self.columns.decode_outputs(self.mixture.loc + noise)

    @property
    def mean(self) -> RowOutput:
        """Mean of the mixture."""
        return self._moments[0].mean(axis=0)

    @property
    def std(self) -> RowOutput:
        """Standard deviation of the mixture."""
        return np.hypot(self.between_std, self.within_std)

    @property
    def between_std(self) -> RowOutput:
        """Spread of the model's functions around their mean: uncertainty that more observations would reduce."""
        return self._moments[0].std(axis=0)

    @property
    def within_std(self) -> RowOutput:
        """Root mean square of the functions' own standard deviations: noise, and uncertainty that these absorb."""
        return np.sqrt((self._moments[1] ** 2).mean(axis=0))

    def quantiles(self, levels: Sequence[float]) -> Float[np.ndarray, "row output level"]:
        """The values that an output stays below with these probabilities."""
        decode = self.columns.decode_outputs  # increasing, so that quantiles stay quantiles
        return np.stack([decode(self.mixture.quantile(level)) for level in require_levels(levels)], axis=-1)

    def cdf(self, y: RowOutput) -> RowOutput:
        """Probability of an output below y; NaN where y is."""
        return np.asarray(self.mixture.cdf(self.columns.encode_outputs(y)))

    def log_prob(self, y: RowOutput) -> Float[np.ndarray, " row"]:
        """Log density of each row's observed outputs, marginally over other rows; NaN if it has none."""
        of_rows = self._component_log_density(y).sum(axis=-1)
        return np.where(np.isnan(y).all(axis=-1), np.nan, log_mean_exp(of_rows))

    def marginal_log_prob(self, y: RowOutput) -> RowOutput:
        """Marginal log density of each output; NaN where y is."""
        return np.where(np.isnan(y), np.nan, log_mean_exp(self._component_log_density(y)))

    def joint_log_prob(self, y: RowOutput) -> float:
        """Joint log density of all observed outputs of all rows."""
        return float(log_mean_exp(self._component_log_density(y).sum(axis=(-2, -1))))

    def crps(self, y: RowOutput) -> RowOutput:
        """Continuous ranked probability score of each output, in its units; smaller is better. NaN where y is."""
        step = max(1, PAIRS_AT_ONCE // (max(len(self.mixture.loc), NODES) ** 2 * len(self.columns.outputs)))
        if step >= len(y):
            return self._crps(y)
        chunks = [slice(start, start + step) for start in range(0, len(y), step)]
        return np.concatenate([Prediction(select(self.mixture, rows), self.columns)._crps(y[rows]) for rows in chunks])

    def _crps(self, y: RowOutput) -> RowOutput:
        encoded = self.mixture.crps(self.columns.encode_outputs(y)) * self.columns.slopes(self.columns.encode_outputs(y))
        scores = [
            encoded[..., number] if encoder.is_affine else _crps_of_draws(self._observations(number), y[:, number])
            for number, encoder in enumerate(self.columns.output_encoders)
        ]
        return np.stack(scores, axis=-1)

    def arrays(self, output_type: str, levels: Sequence[float]) -> "np.ndarray | dict[str, np.ndarray]":
        """The prediction as arrays, without the output axis if there is one output; "full" is a dictionary of all."""
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
        if str(output_type) not in makers:
            raise unknown_name("output_type", str(output_type), makers, f"Choose one of: {', '.join(makers)}.")
        return makers[str(output_type)]()

    def frame(self, output_type: str, levels: Sequence[float], inputs: Frame) -> Frame:
        """The prediction with the index of `inputs`; "full" starts with the input columns."""
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
        """Drop the output axis if there is one output."""
        return values[:, 0] if values.shape[1] == 1 else values

    def _component_log_density(self, y: RowOutput) -> Float[np.ndarray, "sample row output"]:
        """Log density of each output under each function, zero where it was not observed."""
        encoded = self.columns.encode_outputs(y)
        log_density = self.mixture.component_log_density(encoded) - np.log(self.columns.slopes(encoded))
        return np.where(np.isnan(y), 0.0, log_density)

    @functools.cached_property
    def _moments(self) -> tuple[Float[np.ndarray, "sample row output"], Float[np.ndarray, "sample row output"]]:
        """Mean and standard deviation of the observations of each function."""
        means, stds = self.loc, self.scale * self.mixture.distribution.std
        for number, encoder in enumerate(self.columns.output_encoders):
            if not encoder.is_affine:
                values = self._observations(number)
                means[..., number], stds[..., number] = values.mean(axis=-1), values.std(axis=-1)
        return means, stds

    def _observations(self, number: int) -> Float[np.ndarray, "sample row node"]:
        """Evenly spaced quantiles of the observations of each function, for one output."""
        loc, scale = (np.asarray(part)[..., number, None] for part in (self.mixture.loc, self.mixture.scale))
        quantiles = self.mixture.distribution.quantile((np.arange(NODES) + 0.5) / NODES)
        return self.columns.output_encoders[number].decode(loc + scale * quantiles)


def join(answers: Sequence[Predictive]) -> Predictive:
    """Join predictions of equally many components along the targets, in NumPy: scoring many tasks at once is fast."""
    loc, scale = (
        np.concatenate([np.asarray(part) for part in parts], axis=1)
        for parts in zip(*((answer.loc, answer.scale) for answer in answers), strict=True)
    )
    return Predictive(loc, scale, answers[0].distribution)


def select(answer: Predictive, targets: slice | Int[np.ndarray, " chosen"]) -> Predictive:
    """The prediction of some of the targets."""
    return Predictive(answer.loc[:, targets], answer.scale[:, targets], answer.distribution)


def _crps_of_draws(values: Float[np.ndarray, "sample row node"], y: Float[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    """The continuous ranked probability score of equally likely values: $E|V - y| - E|V - V'| / 2$."""
    ordered = np.sort(np.moveaxis(values, 1, 0).reshape(len(y), -1), axis=1)
    num = ordered.shape[1]
    spread = (ordered * (2 * np.arange(1, num + 1) - num - 1)).sum(axis=1) / num**2
    return np.abs(ordered - y[:, None]).mean(axis=1) - spread
