"""The schema of a table: the names and roles of its columns, and how they become a network's features.

Only this module converts between the user's units and the network's.
"""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError
from mpnp.tables.encoders.base import AbstractColumnEncoder, AbstractOutputEncoder
from mpnp.tables.encoders.numeric import NumericEncoder
from mpnp.tables.encoders.registry import COLUMN_ENCODERS, adapt_encoder, split_kind

__all__ = ["Affine", "Column", "Schema"]


class Affine(NamedTuple):
    """Shifts and scales of numeric columns: the network reads (value - shift) / scale."""

    shift: Float[np.ndarray, " column"]
    scale: Float[np.ndarray, " column"]


IN_USERS_UNITS = NumericEncoder()


class KnownNoise(NamedTuple):
    """The column with the known noise of an output's measurements, and the root mean square of that noise in training."""

    column: str
    typical: float = 0.0


@dataclasses.dataclass(frozen=True)
class Column:
    """An input or output column. Until its encoder is fitted, the network's units are the user's."""

    name: str
    encoder: AbstractColumnEncoder = IN_USERS_UNITS
    noise: KnownNoise | None = None


@dataclasses.dataclass(frozen=True)
class Schema:
    """The columns of a table, by the user's names, and how a network reads them.

    >>> schema = Schema.named(["hour"], ["temp"], task="day").learn(np.array([[0.0], [24.0]]), np.array([[10.0], [30.0]]))
    >>> schema.encode_inputs(np.array([[6.0]])), schema.encode_outputs(np.array([[25.0]]))
    (array([[-1.]]), array([[0.5]]))
    """

    input_columns: tuple[Column, ...]
    output_columns: tuple[Column, ...]
    task: str = "task"
    group: str | None = None
    """A column, such as a date, whose curves a split keeps together; if None, each curve is its own group."""
    y_dim: int = 1
    """Output dimensions of a point. If 1, several outputs of a row become separate points, so any of them may be missing. If it
    is their number, the network reads the outputs of a row together, so none may be missing."""
    weight: str | None = None
    """A column that says how much each row counts."""

    def __post_init__(self) -> None:
        for column in self.output_columns:
            encoder = column.encoder
            if not isinstance(encoder, AbstractOutputEncoder):
                raise InputError(f"'{column.name}' cannot be an output: its encoder '{encoder.kind}' has no inverse")
            if column.noise is not None and not encoder.is_affine:
                raise InputError(
                    f"the noise of '{column.name}' is in its units, but the network reads its logarithm; leave out "
                    f"'{column.noise.column}', or take the logarithm yourself and divide the noise by the value"
                )

    @staticmethod
    def named(
        inputs: Sequence[str],
        outputs: Sequence[str],
        task: str = "task",
        group: str | None = None,
        *,
        weight: str | None = None,
        noise: Sequence[str] = (),
    ) -> "Schema":
        """A schema of columns with these names. A name may end in a kind, as in `sex:category`; else the cells decide.

        `noise` names the columns with the known noise of the outputs, in their order.
        """
        input_columns, output_columns = (tuple(Column(*split_kind(str(name))) for name in names) for names in (inputs, outputs))
        return Schema(input_columns, output_columns, task, group, weight=weight).with_noise(noise)

    def with_noise(self, names: Sequence[str]) -> "Schema":
        """The schema with these columns of known noise, one for each output; none if there are no names."""
        if names and len(names) != len(self.output_columns):
            raise InputError(
                f"every output needs its column of known noise: got {len(names)} ({', '.join(names)}) for the outputs "
                f"{', '.join(self.outputs)}"
            )
        known = [KnownNoise(str(name)) for name in names] or [None] * len(self.output_columns)
        pairs = zip(self.output_columns, known, strict=True)
        return dataclasses.replace(self, output_columns=tuple(dataclasses.replace(c, noise=noise) for c, noise in pairs))

    @staticmethod
    def numbered(num_inputs: int, num_outputs: int) -> "Schema":
        """A schema of numeric columns with default names.

        >>> Schema.numbered(2, 1).inputs, Schema.numbered(2, 1).outputs
        (('x0', 'x1'), ('y',))
        """
        return Schema.named(_numbered("x", num_inputs), _numbered("y", num_outputs))

    def without_absent(self, names: Collection[str]) -> "Schema":
        """The schema without weights and known noise unless their columns are among these names."""
        weight = self.weight if self.weight in names else None
        schema = self if set(self.noise) <= set(names) else self.with_noise(())
        return dataclasses.replace(schema, weight=weight)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(column.name for column in self.input_columns)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(column.name for column in self.output_columns)

    @property
    def noise(self) -> tuple[str, ...]:
        """Names of the columns with the known noise of the outputs, if there are any."""
        return tuple(column.noise.column for column in self.output_columns if column.noise is not None)

    @property
    def typical_noise(self) -> Float[np.ndarray, " output"]:
        """The root mean square of the known noise in training, in the network's units."""
        typical = [0.0 if column.noise is None else column.noise.typical for column in self.output_columns]
        return self.encode_noise(np.asarray([typical]))[0] if any(typical) else np.asarray(typical)

    @property
    def separates_outputs(self) -> bool:
        """Whether each output of a row becomes a separate point."""
        return self.y_dim != len(self.output_columns)

    @property
    def points_per_row(self) -> int:
        """Number of points that a row of targets becomes."""
        return len(self.output_columns) if self.separates_outputs else 1

    @property
    def dims(self) -> tuple[int, int]:
        """Input and output dimensions of a point. If outputs are separate points, the input also tells which output it is."""
        width = sum(column.encoder.width for column in self.input_columns)
        return width + (len(self.output_columns) if self.separates_outputs else 0), self.y_dim

    @property
    def is_numeric(self) -> bool:
        """Whether all columns hold plain numbers."""
        return all(isinstance(column.encoder, NumericEncoder) for column in (*self.input_columns, *self.output_columns))

    @property
    def input_scale(self) -> Affine:
        """Shifts and scales of the inputs, which must be numeric."""
        return _affine(self.input_columns)

    @property
    def output_scale(self) -> Affine:
        """Shifts and scales of the outputs, which must be numeric."""
        return _affine(self.output_columns)

    def adapt(self, frame: Any) -> "Schema":
        """The schema with encoders that suit the cells of a table, which has all columns."""
        inputs, outputs = (
            tuple(
                dataclasses.replace(column, encoder=adapt_encoder(column.encoder, frame[column.name], column.name))
                for column in columns
            )
            for columns in (self.input_columns, self.output_columns)
        )
        return dataclasses.replace(self, input_columns=inputs, output_columns=outputs)

    def learn(
        self,
        x: Float[np.ndarray, "row input"],
        y: Float[np.ndarray, "row output"],
        noise: Float[np.ndarray, "row output"] | None = None,
    ) -> "Schema":
        """The schema with encoders fitted to these rows, which must be those of the training set only."""
        inputs = (
            dataclasses.replace(column, encoder=column.encoder.learn_input(values))
            for column, values in zip(self.input_columns, x.T, strict=True)
        )
        outputs = (
            dataclasses.replace(column, encoder=encoder.learn_output(values))
            for column, encoder, values in zip(self.output_columns, self.output_encoders, y.T, strict=True)
        )
        learnt = dataclasses.replace(self, input_columns=tuple(inputs), output_columns=tuple(outputs))
        return learnt if noise is None else learnt._with_typical_noise(y, noise)

    def _with_typical_noise(self, y: Float[np.ndarray, "row output"], noise: Float[np.ndarray, "row output"]) -> "Schema":
        columns = []
        for column, values, known in zip(self.output_columns, y.T, noise.T, strict=True):
            typical = float(np.sqrt(np.mean(known[~np.isnan(values)] ** 2)))
            known_noise = None if column.noise is None else column.noise._replace(typical=typical)
            columns.append(dataclasses.replace(column, noise=known_noise))
        return dataclasses.replace(self, output_columns=tuple(columns))

    def renamed(self, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> "Schema":
        """The schema with other names for the same columns; None keeps their names."""
        columns = []
        for role, old, names in (("input", self.input_columns, inputs), ("output", self.output_columns, outputs)):
            if names is not None and len(names) != len(old):
                raise InputError(f"the model has {len(old)} {role} columns, got {len(names)} names: {', '.join(names)}")
            pairs = zip(old, names or [column.name for column in old], strict=True)
            columns.append(tuple(dataclasses.replace(column, name=name) for column, name in pairs))
        named = dataclasses.replace(self, input_columns=columns[0], output_columns=columns[1])
        _require_different(*named.inputs, *named.outputs)
        return named

    def with_wider_inputs(self, factor: float) -> "Schema":
        """The schema whose numeric inputs have scales larger by this factor, so that they fill less of the network's range."""
        shift, scale = self.input_scale
        encoders = [NumericEncoder(float(a), float(factor * b)) for a, b in zip(shift, scale, strict=True)]
        wider = (
            dataclasses.replace(column, encoder=encoder) for column, encoder in zip(self.input_columns, encoders, strict=True)
        )
        return dataclasses.replace(self, input_columns=tuple(wider))

    def encode_inputs(self, x: Float[np.ndarray, "*rows input"]) -> Float[np.ndarray, "*rows feature"]:
        """Inputs in the network's units."""
        return _encode(self.input_columns, x)

    def encode_outputs(self, y: Float[np.ndarray, "*rows output"]) -> Float[np.ndarray, "*rows output"]:
        """Outputs in the network's units; NaN stays NaN."""
        return _encode(self.output_columns, y)

    def decode_outputs(self, encoded: Float[np.ndarray, "*rows output"]) -> Float[np.ndarray, "*rows output"]:
        """Outputs back in the user's units."""
        pairs = zip(self.output_encoders, np.moveaxis(np.asarray(encoded, np.float64), -1, 0), strict=True)
        return np.stack([encoder.decode(values) for encoder, values in pairs], axis=-1)

    def encode_noise(self, noise: Float[np.ndarray, "*rows output"]) -> Float[np.ndarray, "*rows output"]:
        """Known noise in the network's units."""
        return noise / self.slopes(np.zeros_like(noise))

    def rows_of(
        self, loc: Any, scale: Any
    ) -> tuple[Float[np.ndarray, "sample row output"], Float[np.ndarray, "sample row output"]]:
        """Locations and scales of a network, arrays of shape (sample, point, y_dim), by row and output, in double precision."""
        loc, scale = np.asarray(loc, np.float64), np.asarray(scale, np.float64)
        if not (np.isfinite(loc).all() and np.isfinite(scale).all()):
            raise InputError(
                "the prediction is not finite: an input or an observed output is too far from the training data; check units"
            )
        shape = (len(loc), -1 if loc.size else 0, len(self.output_columns))
        return loc.reshape(shape), scale.reshape(shape)

    def slopes(self, encoded: Float[np.ndarray, "*rows output"]) -> Float[np.ndarray, "*rows output"]:
        """Derivatives of the outputs with respect to their encoded values."""
        pairs = zip(self.output_encoders, np.moveaxis(encoded, -1, 0), strict=True)
        return np.stack([np.broadcast_to(encoder.slope(values), values.shape) for encoder, values in pairs], axis=-1)

    def log_jacobian(self, y: Float[np.ndarray, "*rows output"]) -> float:
        """What to add to the log density of encoded outputs to get that of the outputs y; NaN marks missing ones."""
        observed = ~np.isnan(y)
        return -float(np.log(self.slopes(self.encode_outputs(y))[observed]).sum())

    def to_json(self) -> dict[str, Any]:
        """As nested dictionaries: `columns` has the names, `normaliser` the encoders."""
        names = {"inputs": list(self.inputs), "outputs": list(self.outputs), "task": self.task, "group": self.group}
        reliability = {"weight": self.weight, "noise": [column.noise for column in self.output_columns if column.noise]}
        return {
            "columns": names | {role: known for role, known in reliability.items() if known},
            "normaliser": {"x": _encoders_to_json(self.input_columns), "y": _encoders_to_json(self.output_columns)},
        }

    @staticmethod
    def from_json(content: Any, y_dim: int = 1) -> "Schema":
        """From what `to_json` made."""
        names, encoders = content["columns"], content["normaliser"]
        inputs, outputs = (
            _columns_from_json(names[role], encoders[axis]) for role, axis in (("inputs", "x"), ("outputs", "y"))
        )
        group, weight = (None if names.get(role) is None else str(names[role]) for role in ("group", "weight"))
        if noise := [KnownNoise(str(column), float(typical)) for column, typical in names.get("noise", ())]:
            pairs = zip(outputs, noise, strict=True)
            outputs = tuple(dataclasses.replace(column, noise=known) for column, known in pairs)
        schema = Schema(inputs, outputs, str(names["task"]), group, y_dim, weight)
        _require_different(schema.task, *schema.inputs, *schema.outputs)
        return schema

    @property
    def output_encoders(self) -> list[AbstractOutputEncoder]:
        """The encoders of the outputs."""
        return [column.encoder for column in self.output_columns if isinstance(column.encoder, AbstractOutputEncoder)]


def _require_different(*names: str) -> None:
    if len(set(names)) < len(names):
        raise InputError(f"two columns have the same name: {', '.join(names)}")


def _encode(columns: Sequence[Column], values: Float[np.ndarray, "*rows column"]) -> Float[np.ndarray, "*rows feature"]:
    pairs = zip(columns, np.moveaxis(np.asarray(values, np.float64), -1, 0), strict=True)
    return np.concatenate([column.encoder.encode(part) for column, part in pairs], axis=-1)


def _affine(columns: Sequence[Column]) -> Affine:
    encoders = [column.encoder for column in columns]
    numeric = [encoder for encoder in encoders if isinstance(encoder, NumericEncoder)]
    if len(numeric) < len(encoders):
        raise InputError(f"expected numeric columns, but not all of {', '.join(column.name for column in columns)} are")
    return Affine(np.asarray([encoder.shift for encoder in numeric]), np.asarray([encoder.scale for encoder in numeric]))


def _encoders_to_json(columns: Sequence[Column]) -> Any:
    """If all columns are numeric, shifts and scales, which every version of mpnp reads; else a list of encoders."""
    encoders = [column.encoder for column in columns]
    if all(isinstance(encoder, NumericEncoder) for encoder in encoders):
        return {name: values.tolist() for name, values in _affine(columns)._asdict().items()}
    return [{"kind": encoder.kind, **encoder.to_json()} for encoder in encoders]


def _columns_from_json(names: Any, encoders: Any) -> tuple[Column, ...]:
    if isinstance(encoders, dict):
        pairs = zip(encoders["shift"], encoders["scale"], strict=True)
        encoders = [{"kind": NumericEncoder.kind, "shift": shift, "scale": scale} for shift, scale in pairs]
    pairs = zip(names, encoders, strict=True)
    return tuple(Column(str(name), COLUMN_ENCODERS[encoder["kind"]].from_json(encoder)) for name, encoder in pairs)


def _numbered(letter: str, count: int) -> tuple[str, ...]:
    return (letter,) if count == 1 else tuple(f"{letter}{number}" for number in range(count))
