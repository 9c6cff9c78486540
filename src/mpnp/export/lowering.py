"""Lower traced functions to programs: short lists of array operations, which run without JAX.

A program is plain JSON. Its steps are [operation, arguments, result, parameters]. An argument is the number of a value, the
name of a weight, or a constant as [type, value]. Shapes may hold names, such as "points + 10": they fit data of any size.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from mpnp.errors import InputError

__all__ = ["Program", "lower"]

Argument = int | str | list[Any]
Step = list[Any]

SAME = frozenset(
    {"abs", "add", "and", "cos", "div", "eq", "erf", "erf_inv", "erfc", "exp", "expm1", "floor", "ge", "gt", "is_finite"}
    | {
        "le",
        "log",
        "log1p",
        "logistic",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "not",
        "or",
        "pow",
        "rsqrt",
        "sign",
        "sqrt",
    }
    | {"shift_right_logical", "sin", "square", "sub", "tanh"}
)
"""Operations without parameters, which programs know by the same names."""

WITHOUT_EFFECT = frozenset({"stop_gradient", "copy", "copy_p", "optimization_barrier"})

CALLS = frozenset(
    {"jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "remat", "checkpoint"}
)
"""Operations that call a function."""

PARAMETERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "broadcast_in_dim": lambda p: {"shape": _dims(p["shape"]), "axes": _ints(p["broadcast_dimensions"])},
    "transpose": lambda p: {"axes": _ints(p["permutation"])},
    "slice": lambda p: {"start": _dims(p["start_indices"]), "stop": _dims(p["limit_indices"])},
    "concatenate": lambda p: {"axis": int(p["dimension"])},
    "reduce_sum": lambda p: {"axes": _ints(p["axes"])},
    "reduce_max": lambda p: {"axes": _ints(p["axes"])},
    "integer_pow": lambda p: {"exponent": int(p["y"])},
    "iota": lambda p: {"shape": _dims(p["shape"]), "axis": int(p["dimension"]), "type": _type(p["dtype"])},
    "dim_as_value": lambda p: {"size": _dim(p["dim"])},
    "dot_general": lambda p: {
        "contract": [_ints(axes) for axes in p["dimension_numbers"][0]],
        "batch": [_ints(axes) for axes in p["dimension_numbers"][1]],
    },
}
"""What programs keep of the parameters of an operation."""

BITCASTS = {("uint32", "float32"): "bits_to_float", ("float32", "uint32"): "float_to_bits"}
"""Operations that read the bits of a number as one of another type."""

CONSTANT = "constant."
"""Start of the names of arrays that belong to no layer."""


@dataclasses.dataclass(frozen=True)
class Program:
    """Steps that compute outputs from inputs, in the order of their numbers, and from weights."""

    inputs: list[tuple[str, list[int | str]]]
    types: dict[str, str]
    """Types of the inputs."""
    outputs: list[Argument]
    steps: list[Step]

    def to_json(self) -> dict[str, Any]:
        """As nested lists."""
        inputs = [{"name": name, "shape": shape} for name, shape in self.inputs]
        return {"inputs": inputs, "outputs": self.outputs, "steps": self.steps}


class _Unknown:
    """A value that programs cannot compute, such as a random key. It may exist as long as nothing needs it."""

    def __init__(self, operation: str) -> None:
        self.operation = operation


def lower(
    function: Callable[..., Any], weights: Any, inputs: Mapping[str, jax.ShapeDtypeStruct]
) -> tuple[Program, dict[str, np.ndarray]]:
    """Trace `function(weights, *inputs)`; returns the program, and by name the weights and constants that it reads."""
    traced = jax.make_jaxpr(function)(weights, *inputs.values())
    lowering = _Lowering()
    arguments: list[Argument | _Unknown] = []
    arrays: dict[str, np.ndarray] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(weights)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        arguments.append(name)
        arrays[name] = np.asarray(leaf)
    arguments += [lowering.new_number() for _ in inputs]
    outputs = lowering.inline(traced, arguments)
    if unknown := next((value for value in outputs if isinstance(value, _Unknown)), None):
        raise InputError(f"this model cannot be exported: it uses the operation '{unknown.operation}'")
    steps = _needed(lowering.steps, outputs)
    read = {argument for step in steps for argument in step[1] if isinstance(argument, str)}
    named = [(name, _dims(shape.shape)) for name, shape in inputs.items()]
    types = {name: _type(shape.dtype) for name, shape in inputs.items()}
    return Program(named, types, outputs, steps), {
        name: value for name, value in (arrays | lowering.arrays).items() if name in read
    }


class _Lowering:
    """Collects steps."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.known: dict[str, int] = {}
        self.count = 0

    def new_number(self) -> int:
        self.count += 1
        return self.count - 1

    def emit(self, operation: str, arguments: Sequence[Argument], parameters: Mapping[str, Any] | None = None) -> int:
        """Append a step, unless an earlier one computes the same; returns the number of its result."""
        content = [list(arguments), *([dict(parameters)] if parameters else [])]
        key = f"{operation} {content}"
        if operation == "random_bits" or key not in self.known:
            result = self.known[key] = self.new_number()
            self.steps.append([operation, content[0], result, *content[1:]])
        return self.known[key]

    def inline(self, closed: ClosedJaxpr, arguments: Sequence[Argument | _Unknown]) -> list[Any]:
        """The outputs of a traced function for these arguments."""
        jaxpr: Jaxpr = closed.jaxpr
        values: dict[Any, Argument | _Unknown] = dict(zip(jaxpr.invars, arguments, strict=True))
        values |= {variable: self._constant(value) for variable, value in zip(jaxpr.constvars, closed.consts, strict=True)}

        def read(variable: Any) -> Argument | _Unknown:
            return self._constant(variable.val) if isinstance(variable, Literal) else values[variable]

        for equation in jaxpr.eqns:
            results = self._lower(equation, [read(variable) for variable in equation.invars])
            values |= dict(zip(equation.outvars, results, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def _constant(self, value: Any) -> Argument | _Unknown:
        if jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key):
            return _Unknown("random key")
        array = np.asarray(value)
        if array.ndim == 0:
            number = array.item()
            # JSON has no infinity; this spelling is read by Python and JavaScript alike.
            return [_type(array.dtype), number if np.isfinite(number) else str(number).replace("inf", "Infinity")]
        name = f"{CONSTANT}{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def _lower(self, equation: Any, arguments: list[Any]) -> list[Any]:
        """The results of one operation."""
        name, parameters, results = equation.primitive.name, equation.params, equation.outvars
        if name == "random_bits":
            return [self.emit(name, [], {"shape": _dims(results[0].aval.shape)})]
        if name in CALLS:
            return self.inline(_called(parameters), arguments)
        if unknown := next((argument for argument in arguments if isinstance(argument, _Unknown)), None):
            return [unknown] * len(results)
        if name in WITHOUT_EFFECT:
            return arguments
        if name in SAME:
            return [self.emit(name, arguments)]
        if name in PARAMETERS and parameters.get("strides") is None:
            return [self.emit(name, arguments, PARAMETERS[name](parameters))]
        if name in RULES:
            return RULES[name](self, equation, arguments)
        return [_Unknown(name)] * len(results)

    def reshape(self, equation: Any, arguments: list[Argument]) -> list[Argument]:
        return [self.emit("reshape", arguments, {"shape": _dims(equation.outvars[0].aval.shape)})]

    def convert(self, equation: Any, arguments: list[Argument]) -> list[Argument]:
        old, new = _type(equation.invars[0].aval.dtype), _type(equation.params["new_dtype"])
        return arguments if old == new else [self.emit("convert", arguments, {"type": new})]

    def bitcast(self, equation: Any, arguments: list[Argument]) -> list[Any]:
        types = _type(equation.invars[0].aval.dtype), _type(equation.params["new_dtype"])
        return [self.emit(BITCASTS[types], arguments) if types in BITCASTS else _Unknown("bitcast_convert_type")]

    def select(self, equation: Any, arguments: list[Argument]) -> list[Argument]:
        """One of two arrays by a flag, or one of several by a number: then one flag after another."""
        selector, chosen, *others = arguments
        if equation.invars[0].aval.dtype == bool:
            return [self.emit("select_n", arguments)]
        for number, other in enumerate(others, start=1):
            flag = self.emit("eq", [selector, ["int32", number]])
            chosen = self.emit("select_n", [flag, chosen, other])
        return [chosen]

    def polynomial(self, equation: Any, arguments: list[Argument]) -> list[Argument]:
        """Horner's method; coefficients ascend."""
        x, *coefficients, value = arguments
        for coefficient in reversed(coefficients):
            value = self.emit("add", [self.emit("mul", [value, x]), coefficient])
        return [value]

    def split(self, equation: Any, arguments: list[Argument]) -> list[Argument]:
        axis, start, parts = equation.params["axis"], 0, []
        for variable in equation.outvars:
            shape = variable.aval.shape
            stop = start + shape[axis]
            bounds = {"start": [0] * len(shape), "stop": _dims(shape)}
            bounds["start"][axis], bounds["stop"][axis] = _dim(start), _dim(stop)
            parts.append(self.emit("slice", arguments, bounds))
            start = stop
        return parts

    def scan(self, equation: Any, arguments: list[Argument]) -> list[Any]:
        """A loop of known length that only carries values, such as that over the coefficients of a polynomial."""
        parameters = equation.params
        num_constants, num_carried = parameters["num_consts"], parameters["num_carry"]
        if parameters["reverse"] or len(equation.outvars) > num_carried or not isinstance(parameters["length"], int):
            return [_Unknown("scan")] * len(equation.outvars)
        fixed, carried = arguments[:num_constants], arguments[num_constants : num_constants + num_carried]
        shapes = [variable.aval.shape for variable in equation.invars[num_constants + num_carried :]]
        for step in range(parameters["length"]):
            each = [self._item(array, shape, step) for array, shape in zip(arguments[-len(shapes) :], shapes, strict=True)]
            carried = self.inline(parameters["jaxpr"], [*fixed, *carried, *each])
        return carried

    def _item(self, array: Argument, shape: Sequence[Any], number: int) -> int:
        """One item along the first axis."""
        rest = _dims(shape[1:])
        bounds = {"start": [number, *[0] * len(rest)], "stop": [number + 1, *rest]}
        return self.emit("reshape", [self.emit("slice", [array], bounds)], {"shape": rest})

    def sort(self, equation: Any, arguments: list[Argument]) -> list[Any]:
        if equation.params["num_keys"] != 1 or not equation.params["is_stable"]:
            return [_Unknown("sort")] * len(equation.outvars)
        axis = {"axis": int(equation.params["dimension"])}
        return [self.emit("sort_by", [arguments[0], argument], axis) for argument in arguments]

    def gather(self, equation: Any, arguments: list[Argument]) -> list[Argument]:
        numbers = equation.params["dimension_numbers"]
        return [
            self.emit(
                "gather",
                arguments,
                {
                    "offset": _ints(numbers.offset_dims),
                    "collapsed": _ints(numbers.collapsed_slice_dims),
                    "start": _ints(numbers.start_index_map),
                    "batch": [_ints(numbers.operand_batching_dims), _ints(numbers.start_indices_batching_dims)],
                    "sizes": _dims(equation.params["slice_sizes"]),
                    "shape": _dims(equation.outvars[0].aval.shape),
                },
            )
        ]


RULES: dict[str, Callable[[_Lowering, Any, list[Any]], list[Any]]] = {
    "reshape": _Lowering.reshape,
    "squeeze": _Lowering.reshape,
    "expand_dims": _Lowering.reshape,
    "convert_element_type": _Lowering.convert,
    "bitcast_convert_type": _Lowering.bitcast,
    "select_n": _Lowering.select,
    "polynomial": _Lowering.polynomial,
    "split": _Lowering.split,
    "scan": _Lowering.scan,
    "sort": _Lowering.sort,
    "gather": _Lowering.gather,
}
"""Operations that become other ones, or several."""


def _called(parameters: Mapping[str, Any]) -> ClosedJaxpr:
    """The function that an operation of `CALLS` calls."""
    called = next(parameters[name] for name in ("jaxpr", "call_jaxpr", "call", "fun_jaxpr") if name in parameters)
    return ClosedJaxpr(called, []) if isinstance(called, Jaxpr) else called


def _needed(steps: Sequence[Step], outputs: Sequence[Any]) -> list[Step]:
    """The steps on which the outputs depend."""
    needed = {output for output in outputs if isinstance(output, int)}
    kept: list[Step] = []
    for step in reversed(steps):
        if step[2] in needed:
            needed |= {argument for argument in step[1] if isinstance(argument, int)}
            kept.append(step)
    return kept[::-1]


def _dims(shape: Sequence[Any]) -> list[int | str]:
    return [_dim(size) for size in shape]


def _dim(size: Any) -> int | str:
    """A size as a number or, if it depends on the data, as a sum of products."""
    if isinstance(size, int | np.integer):
        return int(size)
    text = str(size)
    if not re.fullmatch(r"[\w*+ -]+", text):
        raise InputError(f"this model cannot be exported: an array has the size {text}")
    return text


def _ints(values: Sequence[Any]) -> list[int]:
    return [int(value) for value in values]


def _type(dtype: Any) -> str:
    """The types of programs are bool, int32, uint32 and float32."""
    kind = np.dtype(dtype).kind
    return {"b": "bool", "i": "int32", "u": "uint32", "f": "float32"}[kind]
