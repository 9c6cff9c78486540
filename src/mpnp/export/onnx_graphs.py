"""Programs as ONNX graphs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mpnp.errors import InputError
from mpnp.export.folders import only, write_folder
from mpnp.export.lowering import Program
from mpnp.export.programs import export_whole
from mpnp.inference.model import FittedModel
from mpnp.io.files import write_atomically

__all__ = ["to_onnx", "write_onnx"]

GRAPH = "model.onnx"

OPSET, IR_VERSION = 18, 9
"""Versions that onnxruntime has known since 2023."""

DIRECT = {
    "abs": "Abs", "add": "Add", "and": "And", "cos": "Cos", "div": "Div", "eq": "Equal", "erf": "Erf", "exp": "Exp",
    "floor": "Floor", "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual", "log": "Log", "logistic": "Sigmoid",
    "lt": "Less", "max": "Max", "min": "Min", "mul": "Mul", "neg": "Neg", "not": "Not", "or": "Or", "pow": "Pow",
    "sign": "Sign", "sin": "Sin", "sqrt": "Sqrt", "sub": "Sub", "tanh": "Tanh",
}  # fmt: skip
"""Operations that ONNX has too."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write_onnx(models: Mapping[str, FittedModel], folder: Path) -> list[Path]:
    """Write the network as one graph, and what `Predictor` needs to draw functions with it.

    The inputs of the graph are `rows0`, `rows1` and `rows2`, the inputs and outputs of the context and which of its rows are
    points, `x`, the targets, and `noise`, each with a first axis of contexts; its outputs are location and scale. Everything is
    in the network's units.
    """
    exported = export_whole(only(models))
    program = exported.programs["predict"]
    graph = to_onnx(program, exported.weights)
    content = exported.to_json()
    kept = {name: value for name, value in content["programs"].items() if name != "pseudo"}
    content["programs"] = kept | {"predict": {"graph": GRAPH}}
    read = {
        argument
        for name in kept
        if name != "predict"
        for step in kept[name]["steps"]
        for argument in step[1]
        if isinstance(argument, str)
    }
    weights = {name: value for name, value in exported.weights.items() if name in read}
    files = write_folder(content, weights, folder)
    write_atomically(folder / GRAPH, lambda file: file.write(graph.SerializeToString()))
    return [folder / GRAPH, *files]


def to_onnx(program: Program, weights: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The graph of a program."""
    builder = _Builder(program, weights)
    for operation, arguments, result, *parameters in program.steps:
        builder.translate(operation, arguments, f"v{result}", parameters[0] if parameters else {})
    return builder.model()


class _Builder:
    """Collects nodes; values are named by their numbers in the program."""

    def __init__(self, program: Program, weights: Mapping[str, np.ndarray]) -> None:
        self.program, self.weights = program, weights
        self.nodes: list[onnx.NodeProto] = []
        self.initialisers: dict[str, onnx.TensorProto] = {}
        self.sizes: dict[str, str] = {}
        self.inputs = {number: name for number, (name, _) in enumerate(program.inputs)}
        self.ranks = {name: len(shape) for name, shape in program.inputs} | {
            name: value.ndim for name, value in weights.items()
        }
        for name, shape in program.inputs:
            for axis, size in enumerate(shape):
                if isinstance(size, str) and size not in self.sizes:
                    self.sizes[size] = self.emit("Gather", [self.emit("Shape", [name]), self.constant([axis])], axis=0)

    def emit(self, kind: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """Append a node; returns the name of its result."""
        output = output or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """A constant array, stored once."""
        array = np.asarray(value, dtype)
        name = f"c_{array.dtype}_{array.tolist()}"
        self.initialisers.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def value(self, argument: Any) -> str:
        """The name of an argument of the program."""
        if isinstance(argument, list):
            kind, number = argument
            return self.constant(float(number) if kind == "float32" else number, kind)
        if isinstance(argument, str):
            self.initialisers.setdefault(argument, numpy_helper.from_array(self.weights[argument], argument))
            return argument
        return self.inputs.get(argument, f"v{argument}")

    def size(self, dim: int | str) -> str:
        """A size as an array of one number."""
        if isinstance(dim, int):
            return self.constant([dim])
        if dim not in self.sizes:
            terms = [[self.size(int(f) if f.lstrip("-").isdigit() else f) for f in term.split("*")] for term in _terms(dim)]
            self.sizes[dim] = self._fold("Add", [self._fold("Mul", factors) for factors in terms])
        return self.sizes[dim]

    def _fold(self, kind: str, values: list[str]) -> str:
        first, *rest = values
        for value in rest:
            first = self.emit(kind, [first, value])
        return first

    def shape(self, dims: Sequence[int | str]) -> str:
        """A shape, which may depend on the inputs."""
        if all(isinstance(dim, int) for dim in dims):
            return self.constant(list(dims))
        return self.emit("Concat", [self.size(dim) for dim in dims], axis=0)

    def translate(self, operation: str, arguments: Sequence[Any], result: str, parameters: dict[str, Any]) -> None:
        """Append the nodes of one step."""
        inputs = [self.value(argument) for argument in arguments]
        if operation in DIRECT:
            self.emit(DIRECT[operation], inputs, result)
            self.ranks[result] = max(self.ranks.get(name, 0) for name in inputs)
        elif operation in RULES:
            rank = RULES[operation](self, inputs, result, **parameters)
            self.ranks[result] = self.ranks.get(inputs[0], 0) if rank is None and inputs else rank or 0
        else:
            raise InputError(f"this model cannot be exported to ONNX: it uses the operation '{operation}'")

    def log1p(self, inputs: list[str], result: str) -> None:
        self.emit("Log", [self.emit("Add", [inputs[0], self.constant(1, np.float32)])], result)

    def expm1(self, inputs: list[str], result: str) -> None:
        self.emit("Sub", [self.emit("Exp", inputs), self.constant(1, np.float32)], result)

    def erfc(self, inputs: list[str], result: str) -> None:
        self.emit("Sub", [self.constant(1, np.float32), self.emit("Erf", inputs)], result)

    def is_finite(self, inputs: list[str], result: str) -> None:
        self.emit("Not", [self.emit("Or", [self.emit("IsInf", inputs), self.emit("IsNaN", inputs)])], result)

    def not_equal(self, inputs: list[str], result: str) -> int:
        self.emit("Not", [self.emit("Equal", inputs)], result)
        return max(self.ranks.get(name, 0) for name in inputs)

    def rsqrt(self, inputs: list[str], result: str) -> None:
        self.emit("Reciprocal", [self.emit("Sqrt", inputs)], result)

    def square(self, inputs: list[str], result: str) -> None:
        self.emit("Mul", inputs * 2, result)

    def integer_pow(self, inputs: list[str], result: str, exponent: int) -> None:
        self.emit("Pow", [inputs[0], self.constant(exponent, np.float32)], result)

    def select(self, inputs: list[str], result: str) -> int:
        chosen, if_false, if_true = inputs
        self.emit("Where", [chosen, if_true, if_false], result)
        return max(self.ranks.get(name, 0) for name in inputs)

    def broadcast(self, inputs: list[str], result: str, shape: list[Any], axes: list[int]) -> int:
        # Without the axes that are new, of size one, an array of the right rank remains.
        new = [axis for axis in range(len(shape)) if axis not in axes]
        aligned = self.emit("Unsqueeze", [inputs[0], self.constant(new)]) if new else inputs[0]
        self.emit("Expand", [aligned, self.shape(shape)], result)
        return len(shape)

    def reshape(self, inputs: list[str], result: str, shape: list[Any]) -> int:
        self.emit("Reshape", [inputs[0], self.shape(shape)], result, allowzero=1)
        return len(shape)

    def transpose(self, inputs: list[str], result: str, axes: list[int]) -> None:
        self.emit("Transpose", inputs, result, perm=axes)

    def slice(self, inputs: list[str], result: str, start: list[Any], stop: list[Any]) -> None:
        self.emit("Slice", [inputs[0], self.shape(start), self.shape(stop)], result)

    def concatenate(self, inputs: list[str], result: str, axis: int) -> None:
        self.emit("Concat", inputs, result, axis=axis)

    def convert(self, inputs: list[str], result: str, type: str) -> None:
        self.emit("Cast", inputs, result, to=helper.np_dtype_to_tensor_dtype(np.dtype(type)))

    def reduce_sum(self, inputs: list[str], result: str, axes: list[int]) -> int:
        self.emit("ReduceSum", [inputs[0], self.constant(axes)], result, keepdims=0)
        return self.ranks[inputs[0]] - len(axes)

    def reduce_max(self, inputs: list[str], result: str, axes: list[int]) -> int:
        # A row of minus infinity makes the maximum over nothing what it should be.
        (axis,) = axes
        rank = self.ranks[inputs[0]]
        pads = self.constant([0] * rank + [int(place == axis) for place in range(rank)])
        padded = self.emit("Pad", [inputs[0], pads, self.constant(-np.inf, np.float32)])
        self.emit("ReduceMax", [padded, self.constant(axes)], result, keepdims=0)
        return rank - 1

    def iota(self, inputs: list[str], result: str, shape: list[Any], axis: int, type: str) -> int:
        count = self.emit("Squeeze", [self.size(shape[axis])])
        numbers = self.emit("Range", [self.constant(0), count, self.constant(1)])
        typed = self.emit("Cast", [numbers], to=helper.np_dtype_to_tensor_dtype(np.dtype(type)))
        return self.broadcast([typed], result, shape, [axis])

    def dim_as_value(self, inputs: list[str], result: str, size: int | str) -> int:
        self.emit("Cast", [self.emit("Squeeze", [self.size(size)])], result, to=onnx.TensorProto.INT32)
        return 0

    def dot(self, inputs: list[str], result: str, contract: list[list[int]], batch: list[list[int]]) -> int:
        ranks = [self.ranks[name] for name in inputs]
        left, right = list(LETTERS[: ranks[0]]), list(LETTERS[ranks[0] : sum(ranks)])
        for mine, yours in zip(contract[0] + batch[0], contract[1] + batch[1], strict=True):
            right[yours] = left[mine]
        free = [
            letter
            for side, letters in enumerate((left, right))
            for axis, letter in enumerate(letters)
            if axis not in contract[side] + batch[side]
        ]
        out = [left[axis] for axis in batch[0]] + free
        if not batch[0] and contract == [[ranks[0] - 1], [0]]:
            self.emit("MatMul", inputs, result)
        else:
            self.emit("Einsum", inputs, result, equation=f"{''.join(left)},{''.join(right)}->{''.join(out)}")
        return len(out)

    def gather(self, inputs: list[str], result: str, offset: list[int], collapsed: list[int], start: list[int],
               batch: list[list[int]], sizes: list[Any], shape: list[Any]) -> int:  # fmt: skip
        """Indexing along one axis: with the same indices for all others, or with own ones for each of their places."""
        if len(start) != 1 or collapsed != start:
            raise InputError("this model cannot be exported to ONNX: it indexes several axes at once")
        last = self.constant([self.ranks[inputs[1]] - 1])
        if batch[0]:
            self.emit("GatherElements", [inputs[0], self._unsqueezed(inputs, start[0], last)], result, axis=start[0])
        else:
            self.emit("Gather", [inputs[0], self.emit("Squeeze", [inputs[1], last])], result, axis=start[0])
        return len(shape)

    def _unsqueezed(self, inputs: list[str], axis: int, last: str) -> str:
        """Indices with an axis for each of the array's; the last ones of the array have size one."""
        squeezed = self.emit("Squeeze", [inputs[1], last])
        missing = self.ranks[inputs[0]] - (self.ranks[inputs[1]] - 1)
        return (
            self.emit("Unsqueeze", [squeezed, self.constant(list(range(axis + 1, axis + 1 + missing)))])
            if missing
            else squeezed
        )

    def model(self) -> onnx.ModelProto:
        """The model, checked."""
        inputs = [helper.make_tensor_value_info(name, self._type(name), shape) for name, shape in self.program.inputs]
        names = ("loc", "scale")
        for output, name in zip(self.program.outputs, names, strict=True):
            self.emit("Identity", [self.value(output)], name)
        outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * 4) for name in names]
        graph = helper.make_graph(self.nodes, "mpnp", inputs, outputs, list(self.initialisers.values()))
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="mpnp"
        )
        onnx.checker.check_model(model)
        return model

    def _type(self, name: str) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(self.program.types[name]))


RULES: dict[str, Callable[..., int | None]] = {
    "broadcast_in_dim": _Builder.broadcast,
    "concatenate": _Builder.concatenate,
    "convert": _Builder.convert,
    "dim_as_value": _Builder.dim_as_value,
    "dot_general": _Builder.dot,
    "erfc": _Builder.erfc,
    "expm1": _Builder.expm1,
    "gather": _Builder.gather,
    "integer_pow": _Builder.integer_pow,
    "iota": _Builder.iota,
    "is_finite": _Builder.is_finite,
    "log1p": _Builder.log1p,
    "ne": _Builder.not_equal,
    "reduce_max": _Builder.reduce_max,
    "reduce_sum": _Builder.reduce_sum,
    "reshape": _Builder.reshape,
    "rsqrt": _Builder.rsqrt,
    "select_n": _Builder.select,
    "slice": _Builder.slice,
    "square": _Builder.square,
    "transpose": _Builder.transpose,
}
"""Operations that take several nodes, or parameters. Each returns the rank of its result, or None for that of its input."""


def _terms(dim: str) -> list[str]:
    return dim.replace("- ", "+ -1*").split(" + ")
