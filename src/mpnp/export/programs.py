"""The programs of a model: everything that its predictions are made of, traced once for data of any size."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mpnp.errors import InputError
from mpnp.export.lowering import Program, lower
from mpnp.inference.card import CONTEXT_SHARE
from mpnp.inference.model import FittedModel
from mpnp.models.base import AbstractNeuralProcess, AbstractTokenReader
from mpnp.models.martingale import AbstractMartingaleNP
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tasks.task import PointSet

__all__ = ["ExportedModel", "export_model", "export_whole"]

FORMAT, VERSION = "mpnp-export", 1

Shape = jax.ShapeDtypeStruct


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """Programs, the arrays that they read, and what a predictor must know about units and the training data."""

    description: dict[str, Any]
    programs: dict[str, Program]
    weights: dict[str, np.ndarray]

    def to_json(self) -> dict[str, Any]:
        """Everything but the weights."""
        return self.description | {"programs": {name: program.to_json() for name, program in self.programs.items()}}


def export_model(model: FittedModel) -> ExportedModel:
    """Trace the programs of a model, in parts that serve several predictions.

    `prepare` computes what depends on each point by itself and `query` what depends on each target by itself, so that a point
    that is added, or a target that stays, costs nothing anew. `predict` reads both, for many contexts at once. `noise` draws
    what the mechanism draws, and `observe` the noise of observations: they ask for random bits, which makes any generator do.
    """
    reads_tokens = isinstance(model.network, AbstractTokenReader)
    return _export(model, _TokenTracer(model.network) if reads_tokens else _PointTracer(model.network))


def export_whole(model: FittedModel) -> ExportedModel:
    """The same with all of the network in `predict`, whose inputs then are points, targets and noise."""
    return _export(model, _PointTracer(model.network))


def _export(model: FittedModel, tracer: "_PointTracer") -> ExportedModel:
    programs: dict[str, Program] = {}
    weights: dict[str, np.ndarray] = {}
    for name, (program, arrays) in tracer.trace().items():
        # Constants are named in each program by themselves.
        renamed = {array: f"{name}.{array}" for array in arrays if array not in tracer.weight_names}
        programs[name] = _rename(program, renamed)
        weights |= {renamed.get(array, array): value for array, value in arrays.items()}
    return ExportedModel(_describe(model), programs, weights)


class _PointTracer:
    """Traces the functions of one network, which may read its context in any way."""

    def __init__(self, network: AbstractNeuralProcess) -> None:
        self.parameters, self.static = eqx.partition(network, eqx.is_array)
        paths = jax.tree_util.tree_flatten_with_path(self.parameters)[0]
        self.weight_names = {jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths}
        self.network, self.dims = network, (network.x_dim, network.y_dim)
        self.draws, self.points, self.targets, self.samples, self.outputs = jax.export.symbolic_shape(
            "draws, points, targets, samples, outputs"
        )

    def trace(self) -> dict[str, tuple[Program, dict[str, np.ndarray]]]:
        x_dim, y_dim = self.dims
        x, y = _float(self.points, x_dim), _float(self.points, y_dim)
        x_target = _float(self.targets, x_dim)
        rows = jax.eval_shape(self.prepare, self.parameters, x, y)
        query = jax.eval_shape(self.query, self.parameters, x_target)
        noise = jax.eval_shape(self.noise, self.parameters)
        many = jax.tree.map(lambda leaf: Shape((self.draws, *leaf.shape), leaf.dtype), (rows, x_target, query, noise))
        traced = {
            "prepare": lower(self.prepare, self.parameters, {"x": x, "y": y}),
            "query": lower(self.query, self.parameters, {"x": x_target}),
            "noise": lower(self.noise, self.parameters, {}),
            "predict": self._lower_tree(jax.vmap(self.predict, (None, 0, 0, 0, 0)), many, ("rows", "x", "query", "noise")),
            **self._likelihood(),
        }
        if isinstance(self.network, AbstractMartingaleNP):
            traced["pseudo"] = self._lower_tree(self.pseudo, (x, y, x_target, noise), ("x", "y", "x_target", "noise"))
        return traced

    def _likelihood(self) -> dict[str, tuple[Program, dict[str, np.ndarray]]]:
        """Noise, cdf and the quantiles of components: whatever the distribution, mixtures follow from these."""
        distribution = self.network.decoder.distribution
        values = _float(self.targets, self.outputs)
        mixture = {name: _float(self.samples, *values.shape) for name in ("loc", "scale")}
        shape: Any = (self.samples, self.targets, self.outputs)
        return {
            "observe": lower(lambda _: distribution.sample(shape, jnp.float32, key=jax.random.key(0)), None, {}),
            "cdf": lower(lambda _, y, loc, scale: Predictive(loc, scale, distribution).cdf(y), None, {"y": values} | mixture),
            "quantile": lower(lambda _, level: distribution.quantile(level), None, {"level": _float(1)}),
        }

    def _lower_tree(
        self, function: Any, trees: tuple[Any, ...], names: tuple[str, ...]
    ) -> tuple[Program, dict[str, np.ndarray]]:
        """Lower a function of several trees of arrays, which become one list of inputs."""
        leaves, structure = jax.tree.flatten(trees)
        labels = [
            f"{name}{number}" if len(jax.tree.leaves(tree)) > 1 else name
            for name, tree in zip(names, trees, strict=True)
            for number in range(len(jax.tree.leaves(tree)))
        ]
        inputs = dict(zip(labels, leaves, strict=True))
        return lower(
            lambda weights, *arrays: function(weights, *jax.tree.unflatten(structure, arrays)), self.parameters, inputs
        )

    def prepare(self, parameters: PyTree, x: Any, y: Any) -> Any:
        """Rows of points: here the points themselves, each with a mark that it is one; a row of zeros is none."""
        return x, y, jnp.ones(x.shape[0], bool)

    def query(self, parameters: PyTree, x: Any) -> Any:
        """What depends on the targets alone: here nothing."""
        return ()

    def noise(self, parameters: PyTree) -> Any:
        anywhere = _all_points(*(jnp.zeros((self.points, size)) for size in self.dims))
        return eqx.combine(parameters, self.static).draw_noise(anywhere, self.samples, key=jax.random.key(0))

    def predict(self, parameters: PyTree, rows: Any, x: Any, query: Any, noise: Any) -> tuple[Any, Any]:
        answer = eqx.combine(parameters, self.static).predict_given(PointSet(*rows), x, noise)
        return answer.loc, answer.scale

    def pseudo(self, parameters: PyTree, x: Any, y: Any, x_target: Any, noise: Any) -> tuple[Any, Any]:
        answer = eqx.combine(parameters, self.static).predict_pseudo_only_given(_all_points(x, y), x_target, noise)
        return answer.loc, answer.scale


class _TokenTracer(_PointTracer):
    """Traces a network that reads its context only through tokens."""

    def prepare(self, parameters: PyTree, x: Any, y: Any) -> Any:
        backbone = eqx.combine(parameters, self.static).backbone
        return backbone.prepare(_all_points(x, y), backbone.encode_inputs(x))

    def query(self, parameters: PyTree, x: Any) -> Any:
        backbone = eqx.combine(parameters, self.static).backbone
        return backbone.query_encoded(backbone.encode_inputs(x))

    def predict(self, parameters: PyTree, rows: Any, x: Any, query: Any, noise: Any) -> tuple[Any, Any]:
        model = eqx.combine(parameters, self.static)
        tokens = model.backbone.relate(rows, jnp.ones(jax.tree.leaves(rows)[0].shape[0]))
        answer = model.predict_tokens(tokens, x, query, noise)
        return answer.loc, answer.scale


def _describe(model: FittedModel) -> dict[str, Any]:
    card = model.card
    if not card.columns.is_numeric:
        raise InputError("only models whose columns are all numeric can be exported")
    x, y = (
        {name: part.tolist() for name, part in scale._asdict().items()}
        for scale in (card.columns.input_scale, card.columns.output_scale)
    )
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": card.model,
        "columns": {"inputs": list(card.columns.inputs), "outputs": list(card.columns.outputs), "task": card.columns.task},
        "separates_outputs": card.columns.separates_outputs,
        "units": {"x": x, "y": y},
        "seen": card.seen.to_json(),
        "context_share": CONTEXT_SHARE if card.scaled_by_context else None,
        "likelihood_std": model.network.decoder.distribution.std,
        "context": str(card.about.get("context", "random")),
        "draws_differ": model.network.num_components(2) > 1,
        "licence": card.licence,
    }


def _all_points(x: Any, y: Any) -> PointSet:
    """Points without padding."""
    return PointSet(x, y, jnp.ones(x.shape[0], bool))


def _float(*shape: Any) -> Shape:
    return Shape(shape, jnp.float32)


def _rename(program: Program, names: dict[str, str]) -> Program:
    steps = [
        [operation, [names.get(argument, argument) if isinstance(argument, str) else argument for argument in arguments], *rest]
        for operation, arguments, *rest in program.steps
    ]
    return dataclasses.replace(program, steps=steps)
