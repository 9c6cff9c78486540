// Programs of array operations, as mpnp exports them: a small interpreter. See mpnp/export/lowering.py for the format.
"use strict";

// An array has strides, so that transposing, slicing and broadcasting copy nothing. Numbers are float32 like the model's.
class Tensor {
  constructor(data, shape, strides = rowStrides(shape), offset = 0) {
    this.data = data;
    this.shape = shape;
    this.strides = strides;
    this.offset = offset;
  }

  get size() {
    return this.shape.reduce((a, b) => a * b, 1);
  }

  get isDense() {
    let stride = 1;
    for (let axis = this.shape.length - 1; axis >= 0; axis--) {
      if (this.shape[axis] !== 1 && this.strides[axis] !== stride) return false;
      stride *= this.shape[axis];
    }
    return true;
  }

  // The values in row-major order; a copy only if they are not stored like that.
  values() {
    const size = this.size;
    if (this.isDense) return this.offset === 0 && this.data.length === size ? this.data : this.data.subarray(this.offset, this.offset + size);
    const result = new this.data.constructor(size), from = this.data;
    visitRows(this.shape, this, this, (at, end, place, step) => { for (; at < end; at++, place += step) result[at] = from[place]; });
    return result;
  }

  reshape(shape) {
    return new Tensor(this.values(), shape);
  }

  transpose(axes) {
    return new Tensor(this.data, axes.map((a) => this.shape[a]), axes.map((a) => this.strides[a]), this.offset);
  }

  slice(start, stop) {
    const offset = start.reduce((sum, first, axis) => sum + first * this.strides[axis], this.offset);
    return new Tensor(this.data, start.map((first, axis) => stop[axis] - first), this.strides, offset);
  }

  broadcast(shape, axes) {
    const strides = new Array(shape.length).fill(0);
    axes.forEach((axis, own) => { if (this.shape[own] !== 1) strides[axis] = this.strides[own]; });
    return new Tensor(this.data, shape, strides, this.offset);
  }
}

function rowStrides(shape) {
  const strides = new Array(shape.length);
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

// Go through two arrays of one shape row by row: `visit(at, end, a, stepA, b, stepB)` says which values of a dense result a row
// is, where it begins in both arrays, and how far apart their values are there. Axes that both go through evenly make one row.
function visitRows(shape, a, b, visit) {
  const size = shape.reduce((x, y) => x * y, 1);
  let inner = 1, stepA = 0, stepB = 0, axis = shape.length - 1;
  for (; axis >= 0; axis--) {
    if (shape[axis] === 1) continue;
    if (inner === 1) [stepA, stepB] = [a.strides[axis], b.strides[axis]];
    else if (a.strides[axis] !== stepA * inner || b.strides[axis] !== stepB * inner) break;
    inner *= shape[axis];
  }
  const outer = axis, index = new Array(outer + 1).fill(0);
  let placeA = a.offset, placeB = b.offset;
  for (let at = 0; at < size; at += inner) {
    visit(at, at + inner, placeA, stepA, placeB, stepB);
    for (axis = outer; axis >= 0; axis--) {
      placeA += a.strides[axis];
      placeB += b.strides[axis];
      if (++index[axis] < shape[axis]) break;
      placeA -= index[axis] * a.strides[axis];
      placeB -= index[axis] * b.strides[axis];
      index[axis] = 0;
    }
  }
}

const TYPES = { float32: Float32Array, int32: Int32Array, uint32: Uint32Array, bool: Uint8Array };

function constant([type, value]) {
  return new Tensor(new TYPES[type]([Number(value)]), []);
}

class Program {
  constructor(content, weights) {
    this.inputs = content.inputs.map((input) => input.shape);
    this.outputs = content.outputs.map((output) => (Array.isArray(output) ? constant(output) : output));
    this.steps = content.steps.map(([operation, args, result, parameters]) => ({
      run: OPERATIONS[operation],
      args: args.map((a) => (Array.isArray(a) ? constant(a) : typeof a === "string" ? weights[a] : a)),
      result,
      parameters: parameters ?? {},
    }));
    this.unused = lastUses(this.steps, this.outputs);
  }

  // Sizes that no input shows, such as the number of samples to draw, are given by name.
  run(inputs, sizes = {}, random = null) {
    const known = { ...sizes }, values = new Map(inputs.entries());
    this.inputs.forEach((shape, i) => shape.forEach((name, axis) => { known[name] = inputs[i].shape[axis]; }));
    const scope = { size: (dim) => evaluateSize(dim, known), shape: (dims) => dims.map((dim) => evaluateSize(dim, known)), random };
    this.steps.forEach((step, number) => {
      const args = step.args.map((a) => (typeof a === "number" ? values.get(a) : a));
      values.set(step.result, step.run(args, step.parameters, scope));
      for (const value of this.unused[number] ?? []) values.delete(value);
    });
    return this.outputs.map((output) => (typeof output === "number" ? values.get(output) : output));
  }
}

// For each step, the values that no later step needs.
function lastUses(steps, outputs) {
  const last = new Map();
  steps.forEach((step, number) => [...step.args, step.result].forEach((a) => { if (typeof a === "number") last.set(a, number); }));
  const unused = {};
  for (const [value, number] of last) if (!outputs.includes(value)) (unused[number] ??= []).push(value);
  return unused;
}

// The value of a size such as "2*points + 10".
function evaluateSize(dim, sizes) {
  if (typeof dim === "number") return dim;
  const factor = (word) => (word in sizes ? sizes[word] : Number(word));
  return dim.replace(/- /g, "+ -1*").split(" + ").reduce((sum, term) => sum + term.split("*").reduce((a, b) => a * factor(b), 1), 0);
}

// Operations take a list of arguments, parameters, and the scope of the call.

function unary(f, Type) {
  return ([a]) => {
    const from = a.values(), size = from.length, result = new (Type ?? from.constructor)(size);
    for (let i = 0; i < size; i++) result[i] = f(from[i]);
    return new Tensor(result, a.shape);
  };
}

// Axes of size one stretch to those of the other array; an array without axes fits any.
function align(a, b) {
  const [few, many] = a.shape.length ? [b, a] : [a, b];
  const shape = few.shape.length ? many.shape.map((size, axis) => (size === 1 ? few.shape[axis] : size)) : many.shape;
  const stretch = (part) => part.broadcast(shape, part.shape.map((_, axis) => axis));
  return [stretch(a), stretch(b), shape];
}

// Apply `loop` to each row of two arrays. Engines compile a loop of its own well, unlike one loop that calls many functions.
function elementwise(loop, Type) {
  return ([first, second]) => {
    const [a, b, shape] = align(first, second);
    const result = new (Type ?? a.data.constructor)(shape.reduce((x, y) => x * y, 1));
    visitRows(shape, a, b, (at, end, i, stepA, j, stepB) => loop(a.data, i, stepA, b.data, j, stepB, result, at, end));
    return new Tensor(result, shape);
  };
}

function binary(f, Type) {
  return elementwise((a, i, stepA, b, j, stepB, result, at, end) => { for (; at < end; at++, i += stepA, j += stepB) result[at] = f(a[i], b[j]); }, Type);
}

const add = elementwise((a, i, stepA, b, j, stepB, result, at, end) => { for (; at < end; at++, i += stepA, j += stepB) result[at] = a[i] + b[j]; });
const subtract = elementwise((a, i, stepA, b, j, stepB, result, at, end) => { for (; at < end; at++, i += stepA, j += stepB) result[at] = a[i] - b[j]; });
const times = elementwise((a, i, stepA, b, j, stepB, result, at, end) => { for (; at < end; at++, i += stepA, j += stepB) result[at] = a[i] * b[j]; });
const divide = elementwise((a, i, stepA, b, j, stepB, result, at, end) => { for (; at < end; at++, i += stepA, j += stepB) result[at] = a[i] / b[j]; });
const larger = elementwise((a, i, stepA, b, j, stepB, result, at, end) => {
  for (; at < end; at++, i += stepA, j += stepB) result[at] = a[i] > b[j] || a[i] !== a[i] ? a[i] : b[j];
});

// Apply `fold(values, from, to)` to the values along the axes.
function reduce(fold) {
  return ([a], { axes }) => {
    const kept = a.shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis)), shape = kept.map((axis) => a.shape[axis]);
    const size = shape.reduce((x, y) => x * y, 1), inner = axes.reduce((n, axis) => n * a.shape[axis], 1);
    const from = a.transpose([...kept, ...axes]).values(), result = new from.constructor(size);
    for (let i = 0; i < size; i++) result[i] = fold(from, i * inner, (i + 1) * inner);
    return new Tensor(result, shape);
  };
}

const sum = reduce((values, from, to) => { let total = 0; for (let i = from; i < to; i++) total += values[i]; return total; });
const largest = reduce((values, from, to) => { let most = -Infinity; for (let i = from; i < to; i++) most = most > values[i] ? most : values[i]; return most; });

function select([chosen, ifFalse, ifTrue]) {
  const [no, yes, shape] = align(ifFalse, ifTrue), flags = align(chosen, no)[0].values();
  const [noes, yeses] = [no.values(), yes.values()], result = new noes.constructor(noes.length), each = flags.length > 1 ? 1 : 0;
  for (let i = 0; i < result.length; i++) result[i] = flags[i * each] ? yeses[i] : noes[i];
  return new Tensor(result, shape);
}

// Products summed over the contracted axes, for each index of the batch axes, which come first.
function dot([a, b], { contract, batch }) {
  const [freeA, freeB] = [a, b].map((part, side) => part.shape.map((_, axis) => axis).filter((axis) => ![...contract[side], ...batch[side]].includes(axis)));
  const count = (part, axes) => axes.reduce((n, axis) => n * part.shape[axis], 1);
  const [sets, rows, inner, columns] = [count(a, batch[0]), count(a, freeA), count(a, contract[0]), count(b, freeB)];
  const left = a.transpose([...batch[0], ...freeA, ...contract[0]]).values();
  const right = b.transpose([...batch[1], ...contract[1], ...freeB]).values();
  const result = new Float32Array(sets * rows * columns);
  for (let set = 0; set < sets; set++) multiply(left, right, result, rows, inner, columns, set * rows * inner, set * inner * columns, set * rows * columns);
  return new Tensor(result, [...batch[0].map((x) => a.shape[x]), ...freeA.map((x) => a.shape[x]), ...freeB.map((x) => b.shape[x])]);
}

// Sixteen sums at a time stay in registers, which is several times as fast as adding up each product in memory.
function multiply(a, b, c, rows, inner, columns, a0, b0, c0) {
  const fullRows = rows - (rows % 4), fullColumns = columns - (columns % 4);
  for (let i = 0; i < fullRows; i += 4) {
    const r0 = a0 + i * inner, r1 = r0 + inner, r2 = r1 + inner, r3 = r2 + inner;
    for (let j = 0; j < fullColumns; j += 4) {
      let s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0, s20 = 0, s21 = 0, s22 = 0, s23 = 0, s30 = 0, s31 = 0, s32 = 0, s33 = 0;
      for (let k = 0, at = b0 + j; k < inner; k++, at += columns) {
        const w0 = b[at], w1 = b[at + 1], w2 = b[at + 2], w3 = b[at + 3], v0 = a[r0 + k], v1 = a[r1 + k], v2 = a[r2 + k], v3 = a[r3 + k];
        s00 += v0 * w0; s01 += v0 * w1; s02 += v0 * w2; s03 += v0 * w3;
        s10 += v1 * w0; s11 += v1 * w1; s12 += v1 * w2; s13 += v1 * w3;
        s20 += v2 * w0; s21 += v2 * w1; s22 += v2 * w2; s23 += v2 * w3;
        s30 += v3 * w0; s31 += v3 * w1; s32 += v3 * w2; s33 += v3 * w3;
      }
      let at = c0 + i * columns + j;
      c[at] = s00; c[at + 1] = s01; c[at + 2] = s02; c[at + 3] = s03; at += columns;
      c[at] = s10; c[at + 1] = s11; c[at + 2] = s12; c[at + 3] = s13; at += columns;
      c[at] = s20; c[at + 1] = s21; c[at + 2] = s22; c[at + 3] = s23; at += columns;
      c[at] = s30; c[at + 1] = s31; c[at + 2] = s32; c[at + 3] = s33;
    }
  }
  for (let i = 0; i < rows; i++) {
    for (let j = i < fullRows ? fullColumns : 0; j < columns; j++) {
      let sum = 0;
      for (let k = 0, r = a0 + i * inner, at = b0 + j; k < inner; k++, at += columns) sum += a[r + k] * b[at];
      c[c0 + i * columns + j] = sum;
    }
  }
}

function concatenate(parts, { axis }) {
  const shape = [...parts[0].shape];
  shape[axis] = parts.reduce((n, part) => n + part.shape[axis], 0);
  const inner = shape.slice(axis + 1).reduce((a, b) => a * b, 1), outer = shape.slice(0, axis).reduce((a, b) => a * b, 1);
  const result = new parts[0].data.constructor(outer * shape[axis] * inner);
  let start = 0;
  for (const part of parts) {
    const values = part.values(), run = part.shape[axis] * inner;
    for (let o = 0; o < outer; o++) result.set(values.subarray(o * run, (o + 1) * run), o * shape[axis] * inner + start);
    start += run;
  }
  return new Tensor(result, shape);
}

function iota([], { shape, axis, type }, scope) {
  const sizes = scope.shape(shape);
  return new Tensor(TYPES[type].from({ length: sizes[axis] }, (_, i) => i), [sizes[axis]]).broadcast(sizes, [axis]);
}

// Slices that begin at the indices: the general form of indexing by arrays.
function gather([a, indices], { offset, collapsed, start, batch, sizes, shape }, scope) {
  const full = scope.shape(shape), extents = scope.shape(sizes), from = indices.values(), dims = start.length;
  const ofBatch = full.map((_, axis) => axis).filter((axis) => !offset.includes(axis));
  const own = a.shape.map((_, axis) => axis).filter((axis) => !collapsed.includes(axis) && !batch[0].includes(axis));
  const batchStrides = rowStrides([...ofBatch.map((axis) => full[axis]), dims]);
  const size = full.reduce((x, y) => x * y, 1), strides = rowStrides(full), result = new a.data.constructor(size);
  for (let at = 0; at < size; at++) {
    const index = full.map((extent, axis) => Math.floor(at / strides[axis]) % extent);
    const row = ofBatch.reduce((sum, axis, i) => sum + index[axis] * batchStrides[i], 0);
    let place = a.offset;
    for (let axis = 0; axis < a.shape.length; axis++) {
      let position = own.includes(axis) ? index[offset[own.indexOf(axis)]] : 0;
      if (start.includes(axis)) position += Math.min(Math.max(from[row + start.indexOf(axis)], 0), a.shape[axis] - extents[axis]);
      else if (batch[0].includes(axis)) position += index[ofBatch[batch[1][batch[0].indexOf(axis)]]];
      place += position * a.strides[axis];
    }
    result[at] = a.data[place];
  }
  return new Tensor(result, full);
}

// Stable: equal keys keep their order.
function sortBy([key, a], { axis }) {
  const last = key.shape.length - 1, axes = key.shape.map((_, i) => i);
  [axes[axis], axes[last]] = [axes[last], axes[axis]];
  const moved = a.transpose(axes), keys = key.transpose(axes).values(), values = moved.values(), length = moved.shape[last];
  const result = new values.constructor(values.length);
  for (let row = 0; row < values.length; row += length) {
    const order = Array.from({ length }, (_, i) => i).sort((i, j) => keys[row + i] - keys[row + j]);
    order.forEach((from, to) => { result[row + to] = values[row + from]; });
  }
  return new Tensor(result, moved.shape).transpose(axes);
}

function randomBits([], { shape }, scope) {
  const sizes = scope.shape(shape);
  return new Tensor(Uint32Array.from({ length: sizes.reduce((a, b) => a * b, 1) }, scope.random), sizes);
}

// A seeded generator of 32 random bits (xoshiro128**), whose state is hashed from any numbers.
function generator(...seeds) {
  let hash = 0x9e3779b9;
  const state = new Uint32Array(4).map((_, i) => {
    for (const seed of [i, ...seeds]) {
      hash = Math.imul(hash ^ seed, 0x85ebca6b) ^ (hash >>> 13);
      hash = Math.imul(hash ^ (hash >>> 16), 0xc2b2ae35);
    }
    return hash >>> 0 || 1;
  });
  const rotate = (x, k) => (x << k) | (x >>> (32 - k));
  return () => {
    const result = Math.imul(rotate(Math.imul(state[1], 5), 7), 9) >>> 0, t = state[1] << 9;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= t;
    state[3] = rotate(state[3], 11);
    return result;
  };
}

const polynomial = (coefficients, x) => coefficients.reduce((sum, c) => sum * x + c, 0);

// Giles' polynomials, accurate to single precision.
function erfInv(x) {
  const w = -Math.log((1 - x) * (1 + x));
  return x * (w < 5
    ? polynomial([2.81022636e-8, 3.43273939e-7, -3.5233877e-6, -4.39150654e-6, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941], w - 2.5)
    : polynomial([-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682], Math.sqrt(w) - 3));
}

// The complementary error function by a Chebyshev fit with a relative error below 1.2e-7 (Numerical Recipes, erfcc).
function erfc(x) {
  const t = 1 / (1 + Math.abs(x) / 2);
  const tail = t * Math.exp(-x * x + polynomial([0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223], t));
  return x >= 0 ? tail : 2 - tail;
}

const OPERATIONS = {
  abs: unary(Math.abs),
  add,
  and: binary((a, b) => a & b),
  bits_to_float: ([a]) => new Tensor(new Float32Array(Uint32Array.from(a.values()).buffer), a.shape),
  broadcast_in_dim: ([a], { shape, axes }, scope) => a.broadcast(scope.shape(shape), axes),
  concatenate,
  convert: ([a], { type }) => new Tensor(type === "bool" ? Uint8Array.from(a.values(), (v) => (v ? 1 : 0)) : TYPES[type].from(a.values()), a.shape),
  dim_as_value: ([], { size }, scope) => new Tensor(new Int32Array([scope.size(size)]), []),
  div: divide,
  dot_general: dot,
  eq: binary((a, b) => (a === b ? 1 : 0), Uint8Array),
  erf: unary((x) => (Math.abs(x) < 1e-3 ? 1.1283791671 * (x - x ** 3 / 3) : 1 - erfc(x))),
  erf_inv: unary(erfInv),
  erfc: unary(erfc),
  cos: unary(Math.cos),
  exp: unary(Math.exp),
  expm1: unary(Math.expm1),
  float_to_bits: ([a]) => new Tensor(new Uint32Array(Float32Array.from(a.values()).buffer), a.shape),
  floor: unary(Math.floor),
  gather,
  ge: binary((a, b) => (a >= b ? 1 : 0), Uint8Array),
  gt: binary((a, b) => (a > b ? 1 : 0), Uint8Array),
  integer_pow: ([a], { exponent }) => (exponent === 2 ? times([a, a]) : unary((x) => x ** exponent)([a])),
  iota,
  is_finite: unary((x) => (Number.isFinite(x) ? 1 : 0), Uint8Array),
  le: binary((a, b) => (a <= b ? 1 : 0), Uint8Array),
  log: unary(Math.log),
  log1p: unary(Math.log1p),
  logistic: unary((x) => 1 / (1 + Math.exp(-x))),
  lt: binary((a, b) => (a < b ? 1 : 0), Uint8Array),
  max: larger,
  min: binary((a, b) => (a < b || a !== a ? a : b)),
  mul: times,
  ne: binary((a, b) => (a !== b ? 1 : 0), Uint8Array),
  neg: unary((x) => -x),
  not: unary((x) => (x ? 0 : 1)),
  or: binary((a, b) => a | b),
  pow: binary(Math.pow),
  random_bits: randomBits,
  reduce_max: largest,
  reduce_sum: sum,
  reshape: ([a], { shape }, scope) => a.reshape(scope.shape(shape)),
  rsqrt: unary((x) => 1 / Math.sqrt(x)),
  select_n: select,
  shift_right_logical: binary((a, b) => a >>> b),
  sign: unary(Math.sign),
  slice: ([a], { start, stop }, scope) => a.slice(scope.shape(start), scope.shape(stop)),
  sort_by: sortBy,
  sqrt: unary(Math.sqrt),
  square: ([a]) => times([a, a]),
  sub: subtract,
  sin: unary(Math.sin),
  tanh: unary(Math.tanh),
  transpose: ([a], { axes }) => a.transpose(axes),
};
