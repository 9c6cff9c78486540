"""Two ways of computing the same thing agree: attention to parts and to their union, with lifted queries or without, products
in a batch, counts for copies.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.models import assert_trees_close, small_model
from mpnp.nn.attention import HEAD_DIM_TO_LIFT, ISAB, KeyValues, MultiHeadAttention, _standardize, mean_of_union
from mpnp.nn.linear import NARROW, product
from mpnp.tasks.task import PointSet

RNG = np.random.default_rng(0)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def normal(*shape):
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


@pytest.mark.parametrize("weights", [[1, 1, 1, 1, 1], [1, 0, 0.5, 2, 0], [0, 0, 0, 0, 0]], ids=["ones", "some", "none"])
def test_lifted_queries_attend_as_projected_keys_do(weights):
    attention = MultiHeadAttention(6, 7, 5, 8, num_heads=2, key=jax.random.key(0))
    attention = jax.tree.map(lambda leaf: leaf + 0.3 * normal(*leaf.shape), attention)
    query, keys, values = normal(3, 2, 8), normal(3, 5, 7), normal(3, 5, 5)

    def attend(attention, query, keys, values, way):
        source = KeyValues(keys, values, jnp.broadcast_to(jnp.asarray(weights, jnp.float32), (3, 5)))
        result = mean_of_union([way(attention, query, source)])
        return jnp.sum(result * jnp.arange(result.size).reshape(result.shape) / result.size), result

    lifted, projected = (
        jax.grad(attend, argnums=(0, 1, 2, 3), has_aux=True)(attention, query, keys, values, way)
        for way in (MultiHeadAttention.attend_lifted, MultiHeadAttention.attend)
    )
    assert_trees_close(lifted, projected, **CLOSE)


@pytest.mark.parametrize("num_known", [0, 2])
def test_a_set_that_grows_row_by_row_attends_as_the_whole_set_does(num_known):
    attention = MultiHeadAttention(6, 6, 6, 8, num_heads=2, key=jax.random.key(0))
    features, slots = normal(5, 6), jnp.arange(5)

    def known(count):  # nothing is known of rows that have not joined yet
        weights = (slots < count).astype(jnp.float32)
        return attention.project(features * weights[:, None]), weights

    sums = attention.sums_within(*known(num_known))
    for slot in range(num_known, 5):
        rows, weights = known(slot + 1)
        sums = attention.append_within(sums, rows, slot, weights)
    whole, weights = known(5)
    np.testing.assert_allclose(attention.combine(whole.query, sums), attention.attend_within(whole, weights), **CLOSE)


@pytest.mark.parametrize("num_inducing", [0, 2, 40])
@pytest.mark.parametrize("head_dim", [4, HEAD_DIM_TO_LIFT], ids=["projected", "lifted"])
def test_an_induced_set_attention_block_is_two_attentions_in_a_row(num_inducing, head_dim):
    block = ISAB(6, 5, 2 * head_dim, num_heads=2, key=jax.random.key(0))
    noise, inducing, weights = normal(3, 6), normal(num_inducing, 5), jnp.ones(num_inducing)
    hidden = block.gather(inducing, KeyValues(noise, noise, jnp.ones(3)))
    wanted = block.scatter(noise, KeyValues(hidden, hidden, weights))
    np.testing.assert_allclose(block(noise, inducing, weights), wanted, **CLOSE)


@pytest.mark.parametrize("width", [NARROW, NARROW + 1])
@pytest.mark.parametrize("function", [jnp.matmul, product], ids=["matmul", "product"])
def test_a_product_has_the_values_and_gradients_of_a_matrix_product(function, width):
    rows, weight, many_weights = normal(4, 3, 5), normal(5, width), normal(4, 5, width)

    def total(rows, weight):
        return jnp.sum(jnp.sin(function(rows, weight)))

    def oracle(rows, weight):
        return jnp.sum(jnp.sin(jnp.einsum("...i,io->...o", rows, weight)))

    for gradient in (jax.grad(total, (0, 1)), jax.jit(jax.grad(total, (0, 1)))):
        assert_trees_close(gradient(rows, weight), jax.grad(oracle, (0, 1))(rows, weight), **CLOSE)
    for axes in ((0, None), (1, None), (0, 0), (None, 0)):
        weights = weight if axes[1] is None else many_weights
        inputs = rows if axes[0] is not None else rows[0]

        def batched(inputs, weights, inner, axes=axes):
            return jnp.sum(jax.vmap(inner, axes)(inputs, weights))

        got, wanted = (jax.grad(batched, (0, 1))(inputs, weights, inner) for inner in (total, oracle))
        assert_trees_close(got, wanted, **CLOSE)
        each = jax.vmap(jax.grad(total, (0, 1)), axes)(inputs, weights)
        assert_trees_close(each, jax.vmap(jax.grad(oracle, (0, 1)), axes)(inputs, weights), **CLOSE)
    assert product(jnp.zeros((2, 0, 5)), weight).shape == (2, 0, width)


@pytest.mark.parametrize("width", [NARROW, NARROW + 1])
@pytest.mark.parametrize("axes", [(0, None), (None, None), (0, 0), (None, 0)])
def test_a_marked_batch_of_products_has_the_gradients_of_an_unmarked_one(axes, width):
    rows, weight = normal(4, 3, 2, 5)[slice(None) if axes[0] == 0 else 0], normal(4, 5, width)
    weight = weight if axes[1] == 0 else weight[0]

    def total(rows, weight, *, marked):
        def one(rows, weight, marker):
            # A batch within the batch, in which every row is by itself.
            inner = jax.vmap(lambda row: product(row, weight, marker if marked else None))(rows)
            return jnp.sin(inner) + jnp.sin(product(2 * rows, weight, marker if marked else None))

        return jnp.sum(jax.vmap(one, (*axes, 0))(rows, weight, jnp.zeros(4)))

    got, wanted = (
        jax.value_and_grad(functools.partial(total, marked=marked), (0, 1))(rows, weight) for marked in (True, False)
    )
    assert_trees_close(got, wanted, **CLOSE)


def softmax_attention(attention, query, keys, values, weights):
    """Attention straight from its definition, on one set of rows."""
    heads = [
        part.reshape(*part.shape[:-1], 2, 4)
        for part in (query, attention.key_projection(keys), attention.value_projection(values))
    ]
    scores = jnp.einsum("qhd,khd->hqk", heads[0], heads[1]) / np.sqrt(8) + jnp.log(weights)
    return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores, axis=-1), heads[2])


@pytest.mark.parametrize("far", [0.0, 300.0], ids=["near", "far"])
def test_attention_to_parts_is_attention_to_their_union(far):
    attention = MultiHeadAttention(8, 7, 5, 8, num_heads=2, key=jax.random.key(0))
    query, keys, values = normal(3, 8), normal(6, 7), normal(6, 5)
    keys = keys.at[:2].add(far)  # scores so far apart that one part's would underflow beside the other's
    weights = jnp.asarray([1, 2, 0.5, 1, 1, 3], jnp.float32)

    def in_parts(query, keys, values):
        sources = [KeyValues(keys[part], values[part], weights[part]) for part in (slice(2), slice(2, 6))]
        nothing = KeyValues(keys, values, jnp.zeros(6))
        return mean_of_union([attention.attend(query, source) for source in (*sources, nothing)])

    def at_once(query, keys, values):
        return softmax_attention(attention, query, keys, values, weights)

    np.testing.assert_allclose(in_parts(query, keys, values), at_once(query, keys, values), rtol=1e-3, atol=1e-4)
    got, wanted = (
        jax.grad(lambda *inputs, way=way: jnp.sum(jnp.sin(way(*inputs))), (0, 1, 2))(query, keys, values)
        for way in (in_parts, at_once)
    )
    assert_trees_close(got, wanted, rtol=1e-3, atol=1e-3)


def test_standardisation_has_the_usual_values_and_derivatives():
    x = normal(3, 6)

    def usual(x):
        return jax.nn.standardize(x, axis=-1, epsilon=1e-6)

    np.testing.assert_allclose(_standardize(x), usual(x), **CLOSE)
    np.testing.assert_allclose(jax.jacobian(_standardize)(x), jax.jacobian(usual)(x), **CLOSE)
    np.testing.assert_allclose(jax.jacfwd(_standardize)(x), jax.jacfwd(usual)(x), **CLOSE)


@pytest.mark.parametrize("name", ["cnp", "canp"])
def test_a_point_counted_twice_is_two_equal_points(name):
    backbone = small_model(name).backbone
    x, y = normal(3, 1), normal(3, 1)
    copies = jnp.asarray([0, 0, 1])
    twice = PointSet(x[copies], y[copies], jnp.ones(3, bool))
    counted = PointSet(x, y, jnp.ones(3, bool), jnp.asarray([2, 1, 0]))
    targets = normal(4, 1)
    np.testing.assert_allclose(
        backbone.read(targets, backbone.embed(counted)), backbone.read(targets, backbone.embed(twice)), **CLOSE
    )
