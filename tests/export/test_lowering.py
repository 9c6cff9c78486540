"""Lowered functions compute what JAX computes, and say what they cannot."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mpnp.errors import InputError
from mpnp.export.lowering import lower
from mpnp.export.numpy_interpreter import Program

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)

FUNCTIONS = {
    "take": lambda _, x: jnp.take(x, jnp.array([3, 0, 3]), axis=0),
    "take along an axis": lambda _, x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1),
    "batched take": lambda _, x: jax.vmap(lambda row: row[jnp.array([[5, 1], [0, 0]])])(x),
    "einsum": lambda _, x: jnp.einsum("ab,cb,ad->bdc", x, x, x),
    "sort": lambda _, x: jnp.sort(x, axis=0),
    "polynomial": lambda _, x: jnp.polyval(jnp.array([1.0, -2.0, 0.5]), x),
    "clip": lambda _, x: jnp.clip(x, -0.5, jnp.arange(6.0)),
    "roots": lambda _, x: jax.lax.rsqrt(x**2 + 1) + jnp.square(x) ** 3 - jnp.expm1(x),
    "normal quantile": lambda _, x: jax.scipy.special.ndtri(jax.nn.sigmoid(x)),
    "normal cdf": lambda _, x: jax.scipy.special.ndtr(x),
    "one of several": lambda _, x: jax.lax.select_n((x > -0.5).astype(int) + (x > 0.5), x, -x, x**2),
    "bits": lambda _, x: jax.lax.bitcast_convert_type(
        jax.lax.bitcast_convert_type(x, jnp.uint32) & jnp.uint32(0xFFFFF000), jnp.float32
    ),
    "nested calls": lambda _, x: jax.jit(jax.nn.softmax)(jax.jit(jnp.tanh)(x)),
    "integers": lambda _, x: jnp.floor(x).astype(int) * 2 + jnp.arange(6),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_computes_the_same(name):
    (rows,) = jax.export.symbolic_shape("rows")
    shape = jax.ShapeDtypeStruct(X.shape if "take" in name else (rows, 6), np.float32)
    program, weights = lower(FUNCTIONS[name], None, {"x": shape})
    content = json.loads(json.dumps(program.to_json(), allow_nan=False))
    (got,) = Program(content, weights)([X])
    np.testing.assert_allclose(got, FUNCTIONS[name](None, X), rtol=2e-5, atol=2e-5)


def test_what_cannot_be_lowered_is_named_only_if_it_is_needed():
    shape = {"x": jax.ShapeDtypeStruct((3, 3), np.float32)}
    with pytest.raises(InputError, match="uses the operation 'cholesky'"):
        lower(lambda _, x: jnp.linalg.cholesky(x) + 1, None, shape)
    program, _ = lower(lambda _, x: (jnp.linalg.cholesky(x), x + 1)[1], None, shape)
    assert len(program.steps) == 1


def test_sizes_of_the_data_stay_open():
    rows, columns = jax.export.symbolic_shape("rows, columns")
    program, weights = lower(
        lambda _, x: jnp.concatenate([x, x[:1]]).reshape(-1), None, {"x": jax.ShapeDtypeStruct((rows, columns), np.float32)}
    )
    run = Program(program.to_json(), weights)
    for shape in ((4, 6), (1, 2)):
        assert run([np.ones(shape, np.float32)])[0].shape == ((shape[0] + 1) * shape[1],)
