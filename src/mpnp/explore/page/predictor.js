// A model in the browser: predictions and functions in the user's units, from the exported programs.
"use strict";

const FEWEST_FUTURE = 10, MOST_FUTURE = 30;
const DRAWS_AT_ONCE = 4;

class Predictor {
  constructor(content, weights) {
    this.content = content;
    this.outputs = content.columns.outputs.length;
    this.programs = Object.fromEntries(Object.entries(content.programs).map(([name, program]) => [name, new Program(program, weights)]));
    this.kept = { key: null, query: null };
  }

  // Itself, or, of a model that reads each curve in units of its own context, the predictor with those units.
  scaledTo(points) {
    const { context_share: share, units, seen } = this.content;
    if (share === null || !points.length) return this;
    const positive = (scale, size) => (scale > 1e-12 * Math.abs(size) ? scale : 1);
    const xs = points.map((point) => point.x), low = Math.min(...xs), high = Math.max(...xs);
    const middle = low / 2 + high / 2, unit = positive((high - low) / 4, low) / share;
    const ys = points.map((point) => point.y[0]), mean = ys.reduce((a, b) => a + b, 0) / ys.length;
    const std = Math.sqrt(ys.reduce((sum, v) => sum + (v - mean) ** 2, 0) / ys.length);
    const moved = ([bound]) => [bound === null ? null : middle + (unit * (bound - units.x.shift[0])) / units.x.scale[0]];
    return Object.assign(Object.create(Predictor.prototype), this, {
      kept: { key: null, query: null },
      content: { ...this.content, seen: { ...seen, low: moved(seen.low), high: moved(seen.high) }, units: { x: { shift: [middle], scale: [unit] }, y: { shift: [mean], scale: [positive(std, mean)] } } },
    });
  }

  // Location and scale of functions of the model's own mechanism, as lists of draws of targets.
  functions(points, x, num, seed, output) {
    const [px, py] = this.encodePoints(points), targets = this.encodeInputs(x);
    const rows = this.programs.prepare.run([px, py]).map(leading);
    const noise = this.noise(num, px.shape[0], generator(seed, 1)).map(leading);
    const [loc, scale] = this.programs.predict.run([...rows, leading(targets), ...this.query(targets).map(leading), ...noise]);
    return this.decode(loc, scale, output);
  }

  pseudoFunctions(points, x, num, seed, output) {
    const [px, py] = this.encodePoints(points), targets = this.encodeInputs(x);
    const [loc, scale] = this.programs.pseudo.run([px, py, targets, ...this.noise(num, px.shape[0], generator(seed, 1))]);
    return this.decode(leading(loc), leading(scale), output);
  }

  // Some functions by predictive resampling; `part` numbers groups of draws, each with its own random numbers.
  resample(points, x, numFuture, seed, part, output) {
    const random = generator(seed, 2, part), num = DRAWS_AT_ONCE;
    const [px, py] = this.encodePoints(points), targets = this.encodeInputs(x);
    const future = this.futureInputs(points, x, num, numFuture ?? this.defaultFuture(), random);
    const repeat = (a) => a.broadcast([num, ...a.shape], a.shape.map((_, axis) => axis + 1));
    let rows = this.programs.prepare.run([px, py]).map(repeat);
    for (const at of future) {
      const query = this.programs.query.run([at]).map(each);
      const noise = this.noise(num, rows[0].shape[1], random).map(each);
      const [loc, scale] = this.programs.predict.run([...rows, each(at), ...query, ...noise]).map((a) => a.values());
      const drawn = this.programs.observe.run([], { samples: num, targets: 1, outputs: loc.length / num }, random)[0].values();
      const y = new Tensor(loc.map((value, i) => value + scale[i] * drawn[i]), [num, loc.length / num]);
      const added = this.programs.prepare.run([at, y]).map(each);
      rows = rows.map((row, i) => concatenate([row, added[i]], { axis: 1 }));
    }
    const noise = this.noise(num, rows[0].shape[1], random).map(each);
    const [loc, scale] = this.programs.predict.run([...rows, repeat(targets), ...this.query(targets).map(repeat), ...noise]);
    return this.decode(loc, scale, output);
  }

  // Mean and quantiles of the mixture of functions.
  summary({ loc, scale }, levels) {
    const k = loc.length, t = loc[0].length, flat = (rows) => new Tensor(Float32Array.from(rows.flat()), [k, t, 1]);
    const [unit, shift] = [this.content.units.y.scale[0], this.content.units.y.shift[0]];
    const centred = flat(loc.map((row) => row.map((v) => (v - shift) / unit))), widths = flat(scale.map((row) => row.map((v) => v / unit)));
    const mean = loc[0].map((_, i) => loc.reduce((sum, row) => sum + row[i], 0) / k);
    return { mean, quantiles: levels.map((level) => this.quantile(level, centred, widths).map((v) => v * unit + shift)) };
  }

  quantile(level, loc, scale) {
    const [k, t] = loc.shape, standard = this.programs.quantile.run([new Tensor(new Float32Array([level]), [1])])[0].values()[0];
    const ends = loc.values().map((v, i) => v + scale.values()[i] * standard), low = new Float32Array(t).fill(Infinity), high = new Float32Array(t).fill(-Infinity);
    ends.forEach((v, i) => { low[i % t] = Math.min(low[i % t], v); high[i % t] = Math.max(high[i % t], v); });
    for (let step = 0; step < 24 && k > 1; step++) {
      const middle = low.map((v, i) => (v + high[i]) / 2);
      const below = this.programs.cdf.run([new Tensor(middle, [t, 1]), loc, scale])[0].values();
      middle.forEach((v, i) => { if (below[i] < level) low[i] = v; else high[i] = v; });
    }
    return Array.from(low, (v, i) => (v + high[i]) / 2);
  }

  noise(samples, points, random) {
    return this.programs.noise.run([], { samples, points }, random);
  }

  // The query at targets that stay is computed once.
  query(targets) {
    const key = targets.values().join();
    if (this.kept.key !== key) this.kept = { key, query: this.programs.query.run([targets]) };
    return this.kept.query;
  }

  defaultFuture() {
    return Math.min(MOST_FUTURE, Math.max(FEWEST_FUTURE, this.content.seen.largest_context));
  }

  encodePoints(points) {
    const { shift, scale } = this.content.units.y, separate = this.content.separates_outputs;
    const x = this.encodeInputs(points.map((point) => point.x));
    const y = points.flatMap((point) => point.y.map((v, i) => (v === null ? NaN : (v - shift[i]) / scale[i])));
    const dim = separate ? 1 : this.outputs, kept = [...Array(y.length / dim).keys()].filter((i) => !Number.isNaN(y[i * dim]));
    const rows = (values, width) => new Tensor(Float32Array.from(kept.flatMap((i) => Array.from(values.slice(i * width, (i + 1) * width)))), [kept.length, width]);
    return [rows(x.values(), x.shape[1]), rows(y, dim)];
  }

  // Inputs as the network reads them. Several outputs of a row may be points of their own, marked in the input.
  encodeInputs(x) {
    const { shift, scale } = this.content.units.x, marks = this.content.separates_outputs ? this.outputs : 0;
    const rows = x.flatMap((v) => Array.from({ length: marks || 1 }, (_, i) => [(v - shift[0]) / scale[0], ...Array.from({ length: marks }, (_, j) => (i === j ? 1 : 0))]));
    return new Tensor(Float32Array.from(rows.flat()), [rows.length, 1 + marks]);
  }

  decode(loc, scale, output) {
    const unit = this.content.units.y, [k, targets] = [loc.shape[0] * loc.shape[1], (loc.shape[2] * loc.shape[3]) / this.outputs];
    const read = (a, shift) => {
      const values = a.values();
      return Array.from({ length: k }, (_, i) => Array.from({ length: targets }, (_, t) => values[(i * targets + t) * this.outputs + output] * unit.scale[output] + shift));
    };
    return { loc: read(loc, unit.shift[output]), scale: read(scale, 0) };
  }

  // Where each draw is observed next, one array of points for each step: evenly spread, each draw with its own shift and order.
  futureInputs(points, x, num, numFuture, random) {
    const { seen, context } = this.content, uniform = () => random() / 2 ** 32;
    let low = Math.min(seen.low[0] ?? Infinity, ...x);
    const high = Math.max(seen.high[0] ?? -Infinity, ...x), last = Math.max(...points.map((point) => point.x), -Infinity);
    const forecast = context === "prefix";
    if (forecast && last < high && last > low) low = last;
    const rows = Array.from({ length: num }, () => {
      const shift = uniform(), inputs = Array.from({ length: numFuture }, (_, i) => low + (high - low) * ((i / numFuture + shift) % 1));
      const encoded = this.encodeInputs(inputs), width = encoded.shape[1], values = encoded.values();
      const order = Array.from({ length: encoded.shape[0] }, (_, i) => i);
      if (forecast) order.sort((i, j) => values[i * width] - values[j * width]);
      else for (let i = order.length - 1; i > 0; i--) { const j = Math.floor(uniform() * (i + 1)); [order[i], order[j]] = [order[j], order[i]]; }
      return order.map((i) => values.slice(i * width, (i + 1) * width));
    });
    return rows[0].map((first, step) => new Tensor(Float32Array.from(rows.flatMap((row) => Array.from(row[step]))), [num, first.length]));
  }
}

const leading = (a) => new Tensor(a.values(), [1, ...a.shape]);
const each = (a) => new Tensor(a.values(), [a.shape[0], 1, ...a.shape.slice(1)]);

// Arrays by name from one base64 text; float16 is widened, which loses nothing.
function decodeWeights(index, text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return Object.fromEntries(index.map(({ name, type, shape, start }) => {
    const size = shape.reduce((a, b) => a * b, 1);
    if (type === "float16") return [name, new Tensor(Float32Array.from(new Uint16Array(bytes.buffer, start, size), halfToFloat), shape)];
    return [name, new Tensor(new TYPES[type](bytes.buffer.slice(start, start + size * TYPES[type].BYTES_PER_ELEMENT)), shape)];
  }));
}

function halfToFloat(bits) {
  const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : sign * 2 ** -24 * fraction;
}
