// What the page shows, and how a link holds it.
"use strict";

const DEFAULTS = { group: 0, models: [], points: [], output: 0, draws: 8, method: "resample", future: 0, noise: false, band: 90, exact: false, pseudo: false, functional: "", seed: 0 };
const MOST_POINTS = 200;

function writeLink(state) {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (name === "points") fields.set("points", value.map(({ x, y }) => [x, ...y.map((v) => v ?? "")].join(":")).join(";"));
    else if (name === "models") for (const model of value) fields.append("models", model);
    else if (name in DEFAULTS && value !== DEFAULTS[name]) fields.set(name, typeof value === "boolean" ? Number(value) : value);
  }
  return `#${fields}`;
}

// Whatever a link holds, the result is a valid state: what cannot be read is left out.
function readLink(hash, { groups, models }) {
  const fields = new URLSearchParams(hash.replace(/^#/, "")), state = structuredClone(DEFAULTS);
  const whole = (name, low, high) => {
    const value = Number(fields.get(name) ?? NaN);
    if (Number.isInteger(value) && value >= low && value <= high) state[name] = value;
  };
  whole("group", 0, groups.length - 1);
  whole("draws", 0, 60);
  whole("future", 0, 60);
  whole("band", 50, 99);
  whole("seed", 0, 2 ** 31 - 1);
  const { outputs } = groups[state.group];
  whole("output", 0, outputs.length - 1);
  for (const name of ["noise", "exact", "pseudo"]) state[name] = fields.get(name) === "1";
  if (fields.get("method") === "generate") state.method = "generate";
  if (["max", "argmax", "min", "argmin", "mean"].includes(fields.get("functional"))) state.functional = fields.get("functional");
  const known = models.filter((model) => model.group === state.group).map((model) => model.name);
  state.models = fields.getAll("models").filter((name) => known.includes(name));
  if (!state.models.length) state.models = known.slice(0, 2);
  const number = (text) => (text.trim() === "" ? null : Number(text));
  state.points = (fields.get("points") ?? "").split(";").map((text) => text.split(":").map(number))
    .filter(([x, ...y]) => Number.isFinite(x) && y.length === outputs.length && y.every((v) => v === null || Number.isFinite(v)) && y.some((v) => v !== null))
    .slice(0, MOST_POINTS).map(([x, ...y]) => ({ x, y }));
  return state;
}

// Tidy rows: one per series and input.
function toCsv(state, group, answers) {
  const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text), output = group.outputs[state.output];
  const rows = [["model", "series", group.input, output].map(quote).join(",")];
  for (const { x, y } of state.points) if (y[state.output] !== null) rows.push(`,observed,${x},${y[state.output]}`);
  for (const [name, answer] of answers) {
    const series = [["mean", answer.mean], [`low${state.band}`, answer.low], [`high${state.band}`, answer.high]];
    (answer.draws ?? []).slice(0, state.draws).forEach((draw, i) => series.push([`function ${i + 1}`, draw]));
    if (state.pseudo) (answer.pseudo ?? []).forEach((draw, i) => series.push([`pseudo context ${i + 1}`, draw]));
    if (state.exact && answer.exact) for (const [part, values] of Object.entries(answer.exact)) series.push([`exact ${part}`, values]);
    for (const [label, values] of series) values?.forEach((v, i) => rows.push(`${quote(name)},${label},${answer.x[i]},${v}`));
  }
  return `${rows.join("\n")}\n`;
}

function functionalOf(name, x, draw) {
  const best = (better) => draw.reduce((at, v, i) => (better(v, draw[at]) ? i : at), 0);
  const greater = (a, b) => a > b, less = (a, b) => a < b;
  switch (name) {
    case "max": return draw[best(greater)];
    case "min": return draw[best(less)];
    case "argmax": return x[best(greater)];
    case "argmin": return x[best(less)];
    default: return draw.reduce((a, b) => a + b, 0) / draw.length;
  }
}

function quantileOf(sorted, level) {
  const place = level * (sorted.length - 1), low = Math.floor(place);
  return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}
