// Charts in SVG: curves over one input with points that can be moved, and histograms.
"use strict";

const WIDTH = 640, HEIGHT = 360, LEFT = 46, RIGHT = 10, TOP = 10, BOTTOM = 38;
const CLICK_PIXELS = 5;

function svg(name, attributes = {}, parent = null) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent?.append(node);
  return node;
}

// Round numbers that divide a range into about `count` parts.
function ticks([low, high], count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, i) => (first + i) * step);
}

const show = (value, digits = 4) => String(Number(Number(value).toPrecision(digits)));

class Chart {
  // `edit` has add(x, y), move(index, x, y), settle() and remove(index).
  constructor(parent, edit) {
    this.edit = edit;
    this.root = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: 0, role: "group" }, parent);
    this.axes = svg("g", {}, this.root);
    const id = `plot-${Chart.count = (Chart.count ?? 0) + 1}`;
    const clip = svg("clipPath", { id }, svg("defs", {}, this.root));
    svg("rect", { x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM }, clip);
    svg("rect", { class: "ground", x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM }, this.root);
    const plot = svg("g", { "clip-path": `url(#${id})`, "pointer-events": "none" }, this.root);
    this.layers = Object.fromEntries(["outside", "band", "pseudo", "draws", "exact", "truth", "mean"].map((name) => [name, svg("g", {}, plot)]));
    this.cursor = svg("path", { class: "cursor" }, plot);
    this.points = svg("g", {}, this.root);
    this.at = null;
    this.listen();
  }

  frame(x, y, names, trained) {
    [this.x, this.y, this.names] = [x, y, names];
    this.axes.replaceChildren();
    for (const value of ticks(x, 7)) {
      svg("line", { class: "grid", x1: this.left(value), x2: this.left(value), y1: TOP, y2: HEIGHT - BOTTOM }, this.axes);
      svg("text", { class: "axis", x: this.left(value), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, this.axes).textContent = show(value);
    }
    for (const value of ticks(y, 5)) {
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: this.top(value), y2: this.top(value) }, this.axes);
      svg("text", { class: "axis", x: LEFT - 6, y: this.top(value) + 4, "text-anchor": "end" }, this.axes).textContent = show(value);
    }
    svg("text", { class: "axis", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 5, "text-anchor": "middle" }, this.axes).textContent = names[0];
    svg("text", { class: "axis", transform: `translate(11 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, this.axes).textContent = names[1];
    const ends = [[x[0], Math.max(trained[0], x[0])], [Math.min(trained[1], x[1]), x[1]]].filter(([a, b]) => b > a);
    this.layers.outside.replaceChildren(...ends.map(([a, b]) => svg("rect", { class: "outside", x: this.left(a), width: this.left(b) - this.left(a), y: TOP, height: HEIGHT - TOP - BOTTOM })));
    this.at ??= [(x[0] + x[1]) / 2, (y[0] + y[1]) / 2];
  }

  left(x) { return LEFT + ((x - this.x[0]) / (this.x[1] - this.x[0])) * (WIDTH - LEFT - RIGHT); }
  top(y) { return TOP + ((this.y[1] - y) / (this.y[1] - this.y[0])) * (HEIGHT - TOP - BOTTOM); }

  path(x, y) {
    const edge = 10 * HEIGHT; // far outside, where renderers still draw lines
    return y.map((v, i) => `${i ? "L" : "M"}${this.left(x[i]).toFixed(1)} ${Math.min(Math.max(this.top(v), -edge), edge).toFixed(1)}`).join("");
  }

  // Replace the curves of a layer: a list of [class, x, y].
  curves(layer, list) {
    this.layers[layer].replaceChildren(...list.map(([name, x, y]) => svg("path", { class: name, d: this.path(x, y) })));
  }

  band(x, low, high) {
    const d = `${this.path(x, low)}${this.path([...x].reverse(), [...high].reverse()).replace("M", "L")}Z`;
    this.layers.band.replaceChildren(svg("path", { class: "band", d }));
  }

  // Nodes stay those of their points, so that focus and a drag survive an update.
  showPoints(points) {
    while (this.points.children.length > points.length) this.points.lastChild.remove();
    while (this.points.children.length < points.length) {
      const node = svg("g", { class: "point", tabindex: 0, role: "button" }, this.points);
      svg("circle", { class: "halo", r: 14 }, node);
      svg("circle", { class: "dot", r: 5.5 }, node);
    }
    points.forEach(({ x, y }, i) => {
      const node = this.points.children[i];
      node.setAttribute("transform", `translate(${this.left(x).toFixed(2)} ${this.top(y).toFixed(2)})`);
      node.setAttribute("aria-label", `Point ${i + 1}: ${this.names[0]} ${show(x)}, ${this.names[1]} ${show(y)}. Arrow keys move it, Delete removes it.`);
    });
    this.shown = points;
    this.root.setAttribute("aria-label", `Plot of ${this.names[1]} against ${this.names[0]} with ${points.length} points. Arrow keys move the cross, Enter adds a point there.`);
  }

  place(event) {
    const box = this.root.getBoundingClientRect();
    const [left, top] = [((event.clientX - box.left) / box.width) * WIDTH, ((event.clientY - box.top) / box.height) * HEIGHT];
    return {
      inside: left >= LEFT && left <= WIDTH - RIGHT && top >= TOP && top <= HEIGHT - BOTTOM,
      x: this.x[0] + ((left - LEFT) / (WIDTH - LEFT - RIGHT)) * (this.x[1] - this.x[0]),
      y: this.y[1] - ((top - TOP) / (HEIGHT - TOP - BOTTOM)) * (this.y[1] - this.y[0]),
    };
  }

  listen() {
    let held = null;
    const indexOf = (event) => [...this.points.children].indexOf(event.target.closest?.(".point"));
    this.root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || held) return;
      const index = indexOf(event), place = this.place(event);
      if (index < 0 && !place.inside) return;
      held = { index: index >= 0 ? index : this.edit.add(place.x, place.y), added: index < 0, moved: false, x: event.clientX, y: event.clientY };
      this.root.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    this.root.addEventListener("pointermove", (event) => {
      if (!held) return;
      held.moved ||= Math.hypot(event.clientX - held.x, event.clientY - held.y) > CLICK_PIXELS;
      if (!held.moved) return;
      const place = this.place(event);
      held.outside = !place.inside;
      this.points.children[held.index]?.classList.toggle("leaving", held.outside);
      if (place.inside) this.edit.move(held.index, place.x, place.y);
    });
    const release = () => {
      if (!held) return;
      this.points.children[held.index]?.classList.remove("leaving");
      const removed = held.outside || (!held.moved && !held.added);
      const { index } = held;
      held = null;
      if (removed) this.edit.remove(index);
      else this.edit.settle();
    };
    this.root.addEventListener("pointerup", release);
    this.root.addEventListener("pointercancel", release);
    this.root.addEventListener("keydown", (event) => this.key(event, indexOf(event)));
  }

  key(event, index) {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [0, 0];
    const share = event.shiftKey ? 0.05 : 0.01;
    const moved = ([x, y]) => [x + dx * share * (this.x[1] - this.x[0]), y + dy * share * (this.y[1] - this.y[0])];
    if (dx || dy) {
      if (index >= 0) this.edit.move(index, ...moved([this.shown[index].x, this.shown[index].y]));
      else this.moveCursor(moved(this.at));
    } else if (index >= 0 && ["Delete", "Backspace"].includes(event.key)) {
      this.edit.remove(index);
      this.root.focus();
    } else if (index < 0 && ["Enter", " "].includes(event.key)) {
      this.edit.add(...this.at);
      this.edit.settle();
    } else return;
    event.preventDefault();
  }

  moveCursor([x, y]) {
    this.at = [Math.min(Math.max(x, this.x[0]), this.x[1]), Math.min(Math.max(y, this.y[0]), this.y[1])];
    const [left, top] = [this.left(this.at[0]), this.top(this.at[1])];
    this.cursor.setAttribute("d", `M${left} ${TOP}V${HEIGHT - BOTTOM}M${LEFT} ${top}H${WIDTH - RIGHT}`);
  }
}

// A histogram of numbers over a fixed range.
function drawHistogram(root, values, [low, high], label) {
  const height = 110, bottom = 22, bins = 32, counts = new Array(bins).fill(0);
  for (const v of values) if (v >= low && v <= high) counts[Math.min(bins - 1, Math.floor(((v - low) / (high - low)) * bins))]++;
  root.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
  root.setAttribute("role", "img");
  root.setAttribute("aria-label", label);
  const left = (v) => LEFT + ((v - low) / (high - low)) * (WIDTH - LEFT - RIGHT), highest = Math.max(...counts, 1), bar = (WIDTH - LEFT - RIGHT) / bins;
  root.replaceChildren();
  counts.forEach((count, i) => {
    const size = (count / highest) * (height - bottom - 6);
    svg("rect", { class: "bar", x: LEFT + i * bar + 0.5, width: bar - 1, y: height - bottom - size, height: size }, root);
  });
  svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: height - bottom, y2: height - bottom }, root);
  for (const value of ticks([low, high], 7)) svg("text", { class: "axis", x: left(value), y: height - 6, "text-anchor": "middle" }, root).textContent = show(value);
}
