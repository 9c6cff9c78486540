// Where answers come from: a server that runs the models, or the models in this page.
//
// An engine has `ask(request, show, isStale)`: it calls `show` with parts of the answer as they come, and stops if the request
// is stale. Parts are {x, mean, low, high, warnings}, {exact: {mean, low, high}}, {pseudo: [...]} and {draws: [...]}.
"use strict";

const FAST = 150;

class ServerEngine {
  constructor(token, path = "api/answer") {
    [this.token, this.path] = [token, path];
    this.milliseconds = {};
  }

  // A part that lately came fast is asked for even if the points have moved on: then functions follow the hand.
  async ask(request, show, isStale) {
    for (const part of ["band", "draws", "exact", "pseudo"].filter((name) => name === "band" || request[name])) {
      if (isStale() && !(this.milliseconds[part] < FAST)) return;
      const started = performance.now();
      show(await this.post({ ...request, part }));
      this.milliseconds[part] = performance.now() - started;
    }
  }

  async post(request) {
    let answer;
    try {
      answer = await fetch(this.path, { method: "POST", headers: { "Content-Type": "application/json", "X-Token": this.token }, body: JSON.stringify(request) });
    } catch {
      throw new Error("the server does not answer; is 'mpnp explore' still running?");
    }
    const content = await answer.json().catch(() => ({ error: "the server gave no readable answer" }));
    if (!answer.ok) throw new Error(content.error);
    return content;
  }
}

class LocalEngine {
  constructor(models, scripts) {
    const source = `${scripts};(${runWorker})()`;
    this.worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    this.worker.postMessage({ models });
    this.waiting = new Map();
    this.count = 0;
    this.worker.onmessage = ({ data: { id, part, error, done } }) => {
      const { show, isStale, resolve, reject } = this.waiting.get(id) ?? {};
      if (!resolve) return;
      if (part) show(part);
      if (isStale()) this.worker.postMessage({ cancel: id });
      if (!done && !error) return;
      this.waiting.delete(id);
      if (error) reject(new Error(error));
      else resolve();
    };
  }

  ask(request, show, isStale) {
    const id = ++this.count;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { show, isStale, resolve, reject });
      this.worker.postMessage({ id, request });
    });
  }

  // Called when a request may have become stale, so that the worker need not finish it first.
  interrupt() {
    for (const [id, { isStale }] of this.waiting) if (isStale()) this.worker.postMessage({ cancel: id });
  }
}

// The body of the worker. Between groups of functions it looks for newer messages.
function runWorker() {
  const MIXTURE = 10, COARSE_GRID = 96; // enough for the eye, and a third of the work
  const predictors = new Map(), cancelled = new Set();
  const pause = () => new Promise((resolve) => { const { port1, port2 } = new MessageChannel(); port1.onmessage = () => { port1.close(); resolve(); }; port2.postMessage(0); });
  self.onmessage = async ({ data: { models, cancel, id, request } }) => {
    if (models) for (const { name, model, index, weights } of models) predictors.set(name, () => new Predictor(model, decodeWeights(index, weights)));
    if (cancel) cancelled.add(cancel);
    if (!request) return;
    try {
      await answer(find(request.model), request, (part) => self.postMessage({ id, part }), () => cancelled.has(id));
      self.postMessage({ id, done: true });
    } catch (error) {
      self.postMessage({ id, error: String(error.message ?? error) });
    }
    cancelled.delete(id);
  };

  function find(name) {
    const found = predictors.get(name);
    const predictor = typeof found === "function" ? found() : found;
    predictors.set(name, predictor);
    return predictor;
  }

  async function answer(model, request, show, isCancelled) {
    const { x, y, grid, output, band, seed, draws, method, future } = request, points = x.map((value, i) => ({ x: value, y: y[i] }));
    const predictor = model.scaledTo(points);
    const inputs = Array.from({ length: COARSE_GRID }, (_, i) => grid[0] + ((grid[1] - grid[0]) * i) / (COARSE_GRID - 1));
    const mixture = predictor.functions(points, inputs, MIXTURE, 0, output), tail = (1 - band) / 2;
    const { mean, quantiles: [low, high] } = predictor.summary(mixture, [tail, 1 - tail]);
    if (![...mean, ...low, ...high].every(Number.isFinite)) throw new Error("the prediction is not finite: a point is too far from the training data");
    show({ x: inputs, mean, low, high, warnings: concerns(predictor.content, x) });
    await pause();
    if (request.pseudo && !isCancelled()) show({ pseudo: predictor.pseudoFunctions(points, inputs, Math.max(draws, 1), seed + 1, output).loc });
    const functions = [];
    for (let part = 0; functions.length < draws && !isCancelled(); part++) {
      const group = method === "generate" ? predictor.functions(points, inputs, draws, seed + 1, output) : predictor.resample(points, inputs, future, seed, part, output);
      functions.push(...observed(predictor, group, request.noise, generator(seed, 3, part)));
      show({ draws: functions.slice(0, draws) });
      await pause();
    }
  }

  function observed(predictor, { loc, scale }, noise, random) {
    if (!noise) return loc;
    const drawn = predictor.programs.observe.run([], { samples: loc.length, targets: loc[0].length, outputs: 1 }, random)[0].values();
    return loc.map((row, k) => row.map((v, t) => v + scale[k][t] * drawn[k * row.length + t]));
  }

  function concerns({ seen }, x) {
    const outside = x.filter((v) => v < (seen.low[0] ?? -Infinity) || v > (seen.high[0] ?? Infinity)).length, list = [];
    if (outside) list.push(`${outside} of ${x.length} points lie outside the training range: the model extrapolates there; trust neither mean nor band`);
    if (x.length > seen.largest_context) list.push(`there are ${x.length} points, more than the ${seen.largest_context} of any context in training: the band may be too narrow or too wide`);
    return list;
  }
}
