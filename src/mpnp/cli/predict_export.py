"""What `mpnp predict` does with an exported model: NumPy predicts, and JAX is not imported."""

import argparse
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mpnp.errors import InputError, first_line
from mpnp.options import MOST_SAMPLES, require_count

if TYPE_CHECKING:
    from mpnp.export.numpy_predictor import Predictor
    from mpnp.tables.columns import Schema
    from mpnp.tables.frames import Frame

__all__ = ["is_export", "predict_with_export", "write_prediction"]


def is_export(directory: Path) -> bool:
    """Whether `mpnp export` wrote this folder."""
    return (directory / "model.json").is_file() and (directory / "weights.npz").is_file()


def predict_with_export(args: argparse.Namespace) -> None:
    """Predict each task of the tables, or the only one."""
    if args.plot is not None or args.forecaster != "best":
        raise InputError(f"{args.directory} is an export, which can neither plot nor choose a forecaster; use the model itself")
    import pandas as pd

    from mpnp.tables.quantiles import require_levels

    require_levels(args.quantiles)
    require_count("num_samples", args.num_samples, most=MOST_SAMPLES)
    predictor, columns = _load(args.directory)
    columns = columns.renamed(args.input, args.output)
    frames = [_predict(predictor, columns, name, context, rows, args) for name, context, rows in _tasks(columns, args)]
    write_prediction(pd.concat(frames).sort_index(kind="stable"), args.out)


def write_prediction(prediction: "Frame", out: Path | None) -> None:
    """Write a table as CSV, or print it."""
    from mpnp.io.files import write_atomically

    text = prediction.to_csv(index=False)
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, lambda file: file.write(text.encode()))
        print(f"wrote {out}: {len(prediction):,} rows")


def _load(directory: Path) -> "tuple[Predictor, Schema]":
    from mpnp.export.numpy_predictor import Predictor
    from mpnp.tables.columns import Schema

    try:
        predictor = Predictor(directory)
        return predictor, Schema.named(predictor.inputs, predictor.outputs, str(predictor.description["columns"]["task"]))
    except ModuleNotFoundError as error:
        raise InputError(f"this export needs {error.name}; install it with: pip install 'mpnp[export]'") from None
    except Exception as error:  # damaged files can raise anything
        raise _unreadable(directory, error) from None


def _unreadable(directory: Path, error: Exception) -> InputError:
    return InputError(f"{directory} holds no export that this version can read ({first_line(error)}); export the model again")


def _tasks(columns: "Schema", args: argparse.Namespace) -> "Iterator[tuple[str | None, Frame | None, Frame]]":
    """Name, context and inputs of each task; the name is None if there is one only."""
    from mpnp.tables.frames import read_table

    context = None if args.context is None else read_table(args.context, (columns.task,))
    at = read_table(args.at, (columns.task,))
    if not len(at):
        raise InputError(f"{args.at} has no rows; give it one row per input to predict at")

    def rows_of(frame: Any, name: str) -> Any:
        return frame[frame[columns.task].astype(str) == name] if frame is not None and columns.task in frame else frame

    both = context is not None and columns.task in context and columns.task in at
    if args.task is not None:
        chosen = rows_of(at, args.task)
        if not len(chosen):
            raise InputError(f"no row has '{args.task}' in the column '{columns.task}' of {args.at}")
        yield args.task if both else None, rows_of(context, args.task), chosen
    elif both:
        for name in at[columns.task].astype(str).unique():
            yield name, rows_of(context, name), rows_of(at, name)
    elif any(frame is not None and columns.task in frame and frame[columns.task].nunique() > 1 for frame in (context, at)):
        raise InputError(f"both tables must name the task of each row in a column '{columns.task}'; or choose one with --task")
    else:
        yield None, context, at


def _predict(
    predictor: "Predictor", columns: "Schema", name: str | None, context: "Frame | None", at: "Frame", args: argparse.Namespace
) -> "Frame":
    """The prediction of one task as a table, with the columns that the model itself would write."""
    from mpnp.tables.rows import read_context, read_inputs

    x, y = (np.zeros((0, 1)), np.zeros((0, 1))) if context is None else read_context(columns, context, None)
    targets = read_inputs(columns, at)
    try:
        _warn(predictor, x, targets)
        answer = predictor.predict(x, y, targets, quantiles=args.quantiles, num_samples=args.num_samples)
        return _table(columns, name, at, answer, args.quantiles)
    except ValueError as error:
        raise InputError(str(error)) from None
    except Warning:
        raise
    except Exception as error:  # so can the programs in them
        raise _unreadable(args.directory, error) from None


def _table(
    columns: "Schema", name: str | None, at: "Frame", answer: Mapping[str, np.ndarray], quantiles: Sequence[float]
) -> "Frame":
    """The answer of one task as a table."""
    import pandas as pd

    from mpnp.tables.quantiles import quantile_name

    table: dict[str, Any] = {} if name is None else {columns.task: [name] * len(at)}
    table |= {column: at[column].to_numpy() for column in columns.inputs}
    for number, output in enumerate(columns.outputs):
        prefix = "" if len(columns.outputs) == 1 else f"{output}_"
        for part in ("mean", "std"):
            table[prefix + part] = answer[part][:, number]
        levels = enumerate(quantiles)
        table |= {prefix + quantile_name(level): answer["quantiles"][:, number, place] for place, level in levels}
        for part in ("between_std", "within_std"):
            table[prefix + part] = answer[part][:, number]
    return pd.DataFrame(table, index=at.index)


def _warn(predictor: "Predictor", x: np.ndarray, targets: np.ndarray) -> None:
    """What a description of the training data can tell; whether a context is plausible only the model itself knows."""
    seen = predictor.description["seen"]
    low, high = (np.array(seen[side], float) for side in ("low", "high"))
    inputs = np.concatenate([x.reshape(-1, len(low)), targets])
    outside = ((inputs < low) | (inputs > high)).any(axis=1).sum()
    if outside and predictor.description["context_share"] is None:
        message = f"{outside} of {len(inputs)} rows lie outside the training range: trust neither mean nor band there"
        warnings.warn(message, stacklevel=2)
    if len(x) > seen["largest_context"]:
        message = f"the context has {len(x)} rows, more than the {seen['largest_context']} of any in training"
        warnings.warn(message, stacklevel=2)
