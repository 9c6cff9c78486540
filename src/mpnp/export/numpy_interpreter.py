"""Programs in NumPy: a program is a list of steps [operation, arguments, result, parameters].

`OPERATIONS` says what each operation does.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["OPERATIONS", "Graph", "Program"]

Array = np.ndarray


class Program:
    """A list of array operations, on inputs of any size."""

    def __init__(self, content: Any, weights: dict[str, Array]) -> None:
        self.inputs = [each["shape"] for each in content["inputs"]]
        self.steps: list[tuple[Callable[..., Array], list[Any], int, dict[str, Any]]] = []
        for operation, arguments, result, *parameters in content["steps"]:
            read = [_constant(a) if isinstance(a, list) else weights[a] if isinstance(a, str) else a for a in arguments]
            self.steps.append((OPERATIONS[operation], read, result, parameters[0] if parameters else {}))
        self.outputs = content["outputs"]
        self.last_used = _last_used(self.steps, self.outputs)

    def __call__(self, inputs: Sequence[Array], rng: np.random.Generator | None = None, **sizes: int) -> list[Array]:
        """Run the program. Sizes that no input shows, such as the number of samples to draw, are given by name."""
        if len(inputs) != len(self.inputs):
            raise ValueError(f"expected {len(self.inputs)} inputs, got {len(inputs)}")
        values: dict[int, Array] = dict(enumerate(inputs))
        for shape, array in zip(self.inputs, inputs, strict=True):
            sizes |= {name: size for name, size in zip(shape, array.shape, strict=True) if isinstance(name, str)}
        scope = _Scope(sizes, rng)
        with np.errstate(all="ignore"):  # values that a mask discards may overflow
            for number, (operation, arguments, result, parameters) in enumerate(self.steps):
                read = [values[a] if type(a) is int else a for a in arguments]
                values[result] = operation(scope, *read, **parameters)
                for unused in self.last_used.get(number, ()):
                    del values[unused]
        return [values[output] if type(output) is int else np.asarray(_constant(output)) for output in self.outputs]


class Graph:
    """A program as an ONNX graph, run by onnxruntime."""

    def __init__(self, path: Path) -> None:
        import onnxruntime  # only here, because NumPy suffices for other folders

        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.names = [each.name for each in self.session.get_inputs()]

    def __call__(self, inputs: Sequence[Array], rng: np.random.Generator | None = None, **sizes: int) -> list[Array]:
        """Run the graph. It fails on empty arrays, so a row of zeros, which is no point, stands for an empty context."""
        filled = [np.ascontiguousarray(a) if a.size else np.zeros([max(size, 1) for size in a.shape], a.dtype) for a in inputs]
        return [np.asarray(part) for part in self.session.run(None, dict(zip(self.names, filled, strict=True)))]


class _Scope:
    """The sizes of this call, and its random numbers."""

    def __init__(self, sizes: dict[str, int], rng: np.random.Generator | None) -> None:
        self.sizes, self.rng = sizes, rng

    def size(self, dim: int | str) -> int:
        """The value of a size such as "2*points + 10"."""
        if isinstance(dim, int):
            return dim
        terms = dim.replace("- ", "+ -1*").split(" + ")
        return sum(math.prod(self.sizes[f] if f in self.sizes else int(f) for f in term.split("*")) for term in terms)

    def shape(self, dims: Sequence[int | str]) -> tuple[int, ...]:
        return tuple(map(self.size, dims))


def _last_used(steps: Sequence[Any], outputs: Sequence[Any]) -> dict[int, list[int]]:
    """For each step, the values that no later one needs: large arrays must not pile up."""
    last: dict[int, int] = {}
    for number, (_, arguments, result, _) in enumerate(steps):
        last |= {a: number for a in (*arguments, result) if type(a) is int}
    kept = {output for output in outputs if type(output) is int}
    return {
        number: [value for value, at in last.items() if at == number and value not in kept] for number in set(last.values())
    }


def _constant(content: list[Any]) -> Any:
    kind, value = content
    return np.dtype(kind).type(float(value) if kind == "float32" else value)


# Operations. Each takes the scope of the call, its arguments and its parameters.


def _dot(_: _Scope, a: Array, b: Array, contract: list[list[int]], batch: list[list[int]]) -> Array:
    """Products summed over the contracted axes, for each index of the batch axes, which come first."""
    free_a, free_b = (
        [axis for axis in range(part.ndim) if axis not in contract[side] + batch[side]] for side, part in enumerate((a, b))
    )
    shared = [a.shape[axis] for axis in batch[0]]
    inner = math.prod(a.shape[axis] for axis in contract[0])
    rows, columns = [a.shape[axis] for axis in free_a], [b.shape[axis] for axis in free_b]
    left = a.transpose(batch[0] + free_a + contract[0]).reshape(*shared, math.prod(rows), inner)
    right = b.transpose(batch[1] + contract[1] + free_b).reshape(*shared, inner, math.prod(columns))
    return (left @ right).reshape(*shared, *rows, *columns)


def _broadcast(scope: _Scope, a: Array, shape: list[Any], axes: list[int]) -> Array:
    full, aligned = scope.shape(shape), [1] * len(shape)
    for axis, size in zip(axes, np.shape(a), strict=True):
        aligned[axis] = size
    return np.broadcast_to(np.reshape(a, aligned), full)


def _iota(scope: _Scope, shape: list[Any], axis: int, type: str) -> Array:
    sizes = scope.shape(shape)
    return _broadcast(scope, np.arange(sizes[axis], dtype=type), list(sizes), [axis])


def _gather(scope: _Scope, a: Array, indices: Array, *, offset: list[int], collapsed: list[int], start: list[int],
            batch: list[list[int]], sizes: list[Any], shape: list[Any]) -> Array:  # fmt: skip
    """Slices of `a` that begin at the indices: the general form of indexing by arrays."""
    rank, extents = len(shape), scope.shape(sizes)
    of_batch = [axis for axis in range(rank) if axis not in offset]
    kept = iter(offset)

    def along(values: Array, axes: list[int]) -> Array:
        return np.reshape(values, [values.shape[axes.index(axis)] if axis in axes else 1 for axis in range(rank)])

    places = []
    for axis, extent in enumerate(extents):
        place = np.zeros((1,) * rank, np.int64)
        if axis in start:
            first = np.clip(indices[..., start.index(axis)], 0, a.shape[axis] - extent)
            place = place + along(first.astype(np.int64), of_batch)
        elif axis in batch[0]:
            shared = of_batch[batch[1][batch[0].index(axis)]]
            place = place + along(np.arange(a.shape[axis]), [shared])
        if axis not in collapsed and axis not in batch[0]:
            place = place + along(np.arange(extent), [next(kept)])
        places.append(place)
    return np.broadcast_to(a[tuple(places)], scope.shape(shape))


def _random_bits(scope: _Scope, shape: list[Any]) -> Array:
    if scope.rng is None:
        raise ValueError("this program draws random numbers; pass a generator")
    return scope.rng.integers(0, 2**32, scope.shape(shape), np.uint32)


def _erf_inv(_: _Scope, x: Array) -> Array:
    """The inverse error function by Giles' polynomials, accurate to single precision."""
    w = -np.log((1 - x) * (1 + x))
    centre = np.polyval([2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
                         -0.00417768164, 0.246640727, 1.50140941], w - 2.5)  # fmt: skip
    tail = np.polyval([-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
                       0.00943887047, 1.00167406, 2.83297682], np.sqrt(np.maximum(w, 0)) - 3)  # fmt: skip
    return (np.where(w < 5, centre, tail) * x).astype(np.asarray(x).dtype)


def _each(function: Callable[[float], float]) -> Callable[[_Scope, Array], Array]:
    """A function of one number, for arrays."""
    many = np.vectorize(function, otypes=[np.float64])
    return lambda _, x: many(x).astype(np.asarray(x).dtype)


def _plain(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function of arrays alone."""
    return lambda _, *arrays: function(*arrays)


OPERATIONS: dict[str, Callable[..., Array]] = {
    "abs": _plain(np.abs),
    "add": _plain(np.add),
    "and": _plain(np.bitwise_and),
    "bits_to_float": lambda _, a: np.ascontiguousarray(a).view(np.float32),
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda _, *parts, axis: np.concatenate(parts, axis=axis),
    "convert": lambda _, a, type: np.asarray(a).astype(type),
    "dim_as_value": lambda scope, size: np.asarray(scope.size(size), np.int32),
    "div": _plain(np.divide),
    "dot_general": _dot,
    "eq": _plain(np.equal),
    "erf": _each(math.erf),
    "erf_inv": _erf_inv,
    "erfc": _each(math.erfc),
    "cos": _plain(np.cos),
    "exp": _plain(np.exp),
    "expm1": _plain(np.expm1),
    "float_to_bits": lambda _, a: np.ascontiguousarray(a, np.float32).view(np.uint32).reshape(np.shape(a)),
    "floor": _plain(np.floor),
    "gather": _gather,
    "ge": _plain(np.greater_equal),
    "gt": _plain(np.greater),
    "integer_pow": lambda _, a, exponent: a**exponent,
    "iota": _iota,
    "is_finite": _plain(np.isfinite),
    "le": _plain(np.less_equal),
    "log": _plain(np.log),
    "log1p": _plain(np.log1p),
    "logistic": lambda _, a: 1 / (1 + np.exp(-a)),
    "lt": _plain(np.less),
    "max": _plain(np.maximum),
    "min": _plain(np.minimum),
    "mul": _plain(np.multiply),
    "ne": _plain(np.not_equal),
    "neg": _plain(np.negative),
    "not": _plain(np.bitwise_not),
    "or": _plain(np.bitwise_or),
    "pow": _plain(np.power),
    "random_bits": _random_bits,
    "reduce_max": lambda _, a, axes: np.max(a, axis=tuple(axes), initial=-np.inf),
    "reduce_sum": lambda _, a, axes: np.sum(a, axis=tuple(axes), dtype=a.dtype),
    "reshape": lambda scope, a, shape: np.reshape(a, scope.shape(shape)),
    "rsqrt": lambda _, a: 1 / np.sqrt(a),
    "select_n": lambda _, chosen, if_false, if_true: np.where(chosen, if_true, if_false),
    "shift_right_logical": _plain(np.right_shift),
    "sign": _plain(np.sign),
    "slice": lambda scope, a, start, stop: a[tuple(map(slice, scope.shape(start), scope.shape(stop)))],
    "sort_by": lambda _, key, a, axis: np.take_along_axis(a, np.argsort(key, axis=axis, kind="stable"), axis),
    "sqrt": _plain(np.sqrt),
    "square": _plain(np.square),
    "sub": _plain(np.subtract),
    "sin": _plain(np.sin),
    "tanh": _plain(np.tanh),
    "transpose": lambda _, a, axes: np.transpose(a, axes),
}
"""What each operation of a program does."""
