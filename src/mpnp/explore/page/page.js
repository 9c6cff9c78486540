// The page: controls, panels, and what keeps them up to date.
"use strict";

const GRID_POINTS = 128;
const DRAWS_FOR_POSTERIOR = 96;

class Panel {
  constructor(page, model) {
    [this.page, this.model, this.answer, this.version, this.busy] = [page, model, {}, 0, false];
    this.title = element("h2", {}, element("span", { textContent: model.name, className: "awaits" }), element("small", { textContent: model.about }));
    this.root = element("article", { className: "panel" }, this.title);
    this.root.setAttribute("aria-label", model.name);
    this.chart = new Chart(this.root, page.edit);
    this.histogram = svg("svg", { class: "histogram" });
    this.posterior = element("p", { className: "posterior" });
    this.warnings = element("div");
    this.root.append(this.histogram, this.posterior, this.warnings);
  }

  // Ask for an answer to the present state. While one is on its way only the newest question waits.
  async update() {
    this.version++;
    this.draw();
    if (this.busy) return this.page.engine.interrupt?.();
    this.busy = this.root.ariaBusy = true;
    let answered = -1;
    while (answered !== this.version && this.root.isConnected) {
      const version = this.version, started = performance.now();
      let first = true;
      try {
        await this.page.engine.ask(this.page.request(this.model), (part) => {
          if (first) this.title.title = `answered within ${Math.round(performance.now() - started)} ms`;
          if (part.x && version !== this.version) delete part.draws;
          this.answer = { ...this.answer, ...part };
          if (first && !this.page.state.draws && !this.page.state.functional) delete this.answer.draws;
          first = false;
          this.draw();
        }, () => version !== this.version);
        this.page.clearError();
      } catch (error) {
        if (version === this.version) say(`${this.model.name}: ${error.message}`, true);
      }
      answered = version;
    }
    this.busy = this.root.ariaBusy = false;
  }

  draw() {
    const { state, group } = this.page, { x, mean, low, high, draws = [], pseudo = [], exact, warnings = [] } = this.answer;
    this.chart.frame(this.page.range.x, this.page.range.y, [group.input, group.outputs[state.output]], this.model.trained ?? this.page.range.x);
    this.chart.showPoints(this.page.visiblePoints().map(({ point }) => ({ x: point.x, y: point.y[state.output] })));
    if (!x) return;
    this.chart.band(x, low, high);
    this.chart.curves("mean", [["mean", x, mean]]);
    this.chart.curves("draws", draws.slice(0, state.draws).map((draw) => ["draw", x, draw]));
    this.chart.curves("pseudo", state.pseudo ? pseudo.slice(0, Math.max(state.draws, 1)).map((draw) => ["pseudo", x, draw]) : []);
    this.chart.curves("exact", state.exact && exact && this.model.exact ? [["exact middle", x, exact.mean], ["exact", x, exact.low], ["exact", x, exact.high]] : []);
    this.chart.curves("truth", this.page.truth ? [["truth", this.page.truth.x, this.page.truth.y.map((row) => row[state.output])]] : []);
    this.warnings.replaceChildren(...warnings.map((text) => element("p", { className: "warning", textContent: text })));
    this.drawPosterior(x, draws);
  }

  drawPosterior(x, draws) {
    const name = this.page.state.functional;
    const shown = Boolean(name) && draws.length > 1;
    this.histogram.toggleAttribute("hidden", !shown);
    this.posterior.hidden = !shown;
    if (!shown) return;
    const values = draws.map((draw) => functionalOf(name, x, draw)).sort((a, b) => a - b);
    const [low, middle, high] = [0.05, 0.5, 0.95].map((level) => show(quantileOf(values, level), 3));
    this.posterior.textContent = `${find("functional").selectedOptions[0].textContent}: ${middle}, between ${low} and ${high} with 90% (${values.length} functions)`;
    drawHistogram(this.histogram, values, name.startsWith("arg") ? this.page.range.x : this.page.range.y, this.posterior.textContent);
  }
}

class Page {
  constructor({ engine, groups, models, other, scripts }) {
    showOther(other, engine.token);
    [this.groups, this.models, this.panels, this.history] = [groups, models, [], []];
    this.engine = engine.local ? new LocalEngine(engine.local, scripts) : new ServerEngine(engine.token);
    this.truth = null;
    this.edit = { add: (x, y) => this.add(x, y), move: (i, x, y) => this.move(i, x, y), settle: () => this.settle(), remove: (i) => this.remove(i) };
    this.state = readLink(location.hash, this);
    if (!location.hash) this.begin(this.group.first, false);
    this.listen();
    this.rebuild();
    window.addEventListener("hashchange", () => { this.state = readLink(location.hash, this); this.truth = null; this.rebuild(); });
  }

  get group() { return this.groups[this.state.group]; }
  get shownModels() { return this.models.filter((model) => this.state.models.includes(model.name) && model.group === this.state.group); }

  // Points that have the chosen output, with their place among all points.
  visiblePoints() {
    return this.state.points.map((point, index) => ({ point, index })).filter(({ point }) => point.y[this.state.output] !== null);
  }

  request(model) {
    const { state } = this;
    return {
      model: model.name, output: state.output, x: state.points.map((p) => p.x), y: state.points.map((p) => p.y), grid: [...this.range.x, GRID_POINTS], band: state.band / 100,
      draws: state.functional ? Math.max(state.draws, DRAWS_FOR_POSTERIOR) : state.draws, method: model.generates ? state.method : "resample",
      future: state.future || null, noise: state.noise, seed: state.seed, exact: state.exact && model.exact, pseudo: state.pseudo && model.pseudo,
    };
  }

  // Axes hold the training range and all points, and grow only when a point leaves them.
  fitRange() {
    const { group, state } = this, seen = this.visiblePoints().map(({ point }) => point);
    const around = ([low, high], values) => {
      const room = 0.05 * (high - low), lowest = Math.min(...values), highest = Math.max(...values);
      return [lowest < low ? lowest - room : low, highest > high ? highest + room : high];
    };
    const truth = this.truth?.y.map((row) => row[state.output]) ?? [];
    this.range = { x: around(group.x, seen.map((p) => p.x)), y: around(group.y[state.output], [...seen.map((p) => p.y[state.output]), ...truth]) };
  }

  add(x, y) {
    if (this.state.points.length >= MOST_POINTS) return say(`there is room for ${MOST_POINTS} points`, true), 0;
    this.remember();
    const values = this.group.outputs.map((_, i) => (i === this.state.output ? tidy(y) : null));
    this.state.points.push({ x: tidy(x), y: this.group.together ? values.map((v) => v ?? 0) : values });
    this.update();
    return this.visiblePoints().length - 1;
  }

  move(shown, x, y) {
    const point = this.visiblePoints()[shown]?.point;
    if (!point) return;
    point.x = tidy(x);
    point.y[this.state.output] = tidy(y);
    this.update();
  }

  settle() {
    this.fitRange();
    this.update();
    this.fillTable();
    const count = this.visiblePoints().length;
    say(`${count} ${count === 1 ? "point" : "points"}`);
  }

  remove(shown) {
    const index = this.visiblePoints()[shown]?.index;
    if (index === undefined) return;
    this.remember();
    this.state.points.splice(index, 1);
    this.settle();
  }

  remember() {
    this.history.push(structuredClone(this.state.points));
    if (this.history.length > 100) this.history.shift();
  }

  begin(number, remember = true) {
    const start = this.group.starts[number];
    if (!start) return;
    if (remember) this.remember();
    this.state.points = start.x.map((x, i) => ({ x: tidy(x), y: start.y[i].map((v) => (v === null ? null : tidy(v))) }));
    this.truth = start.truth;
  }

  update() {
    clearTimeout(this.linking);
    this.linking = setTimeout(() => history.replaceState(null, "", writeLink(this.state)), 250);
    for (const panel of this.panels) panel.update();
  }

  // Make the controls and panels anew, after another group, model or link was chosen.
  rebuild() {
    const { state, group } = this, of = this.models.filter((model) => model.group === state.group);
    find("models").replaceChildren(...of.map((model) => {
      const box = element("input", { type: "checkbox", value: model.name, checked: state.models.includes(model.name) });
      box.addEventListener("change", () => {
        const chosen = [...find("models").querySelectorAll("input:checked")].map((input) => input.value);
        if (!chosen.length) return void (box.checked = true);
        state.models = of.map(({ name }) => name).filter((name) => chosen.includes(name));
        this.rebuild();
      });
      return element("label", { title: model.about }, box, model.name);
    }));
    fill(find("group"), this.groups.map((each) => each.name), state.group);
    fill(find("output"), group.outputs, state.output);
    fill(find("start"), ["points of your own", ...group.starts.map((start) => start.name)], group.starts.findIndex((start) => start.truth === this.truth) + 1);
    find("group-choice").hidden = this.groups.length < 2;
    find("output-choice").hidden = group.outputs.length < 2;
    const shown = this.shownModels, any = (what) => shown.some((model) => model[what]);
    find("exact-choice").hidden = !any("exact");
    find("pseudo-choice").hidden = !any("pseudo");
    document.querySelector('[value="generate"]').disabled = !any("generates");
    find("truth-name").textContent = group.truth;
    this.showControls();
    this.fitRange();
    const kept = new Map(this.panels.map((panel) => [panel.model, panel]));
    this.panels = shown.map((model) => kept.get(model) ?? new Panel(this, model));
    find("panels").replaceChildren(...this.panels.map((panel) => panel.root));
    this.fillTable();
    this.update();
  }

  showControls() {
    const { state } = this;
    for (const name of ["draws", "future", "band"]) find(name).value = state[name];
    for (const name of ["noise", "exact", "pseudo"]) find(name).checked = state[name];
    find("functional").value = state.functional;
    for (const input of document.getElementsByName("method")) input.checked = input.value === state.method;
    find("draws-value").textContent = state.draws;
    find("future-value").textContent = state.method === "generate" ? "—" : state.future || "default";
    find("future").disabled = state.method === "generate";
    find("band-value").textContent = `${state.band}%`;
    for (const [name, isShown] of [["truth", this.truth], ["exact", state.exact], ["pseudo", state.pseudo]]) find(`${name}-key`).hidden = !isShown;
  }

  listen() {
    const set = (name, value) => { this.state[name] = value; this.showControls(); this.update(); };
    for (const name of ["draws", "future", "band"]) find(name).addEventListener("input", (event) => set(name, Number(event.target.value)));
    for (const name of ["noise", "exact", "pseudo"]) find(name).addEventListener("change", (event) => set(name, event.target.checked));
    for (const input of document.getElementsByName("method")) input.addEventListener("change", () => set("method", input.value));
    find("functional").addEventListener("change", (event) => set("functional", event.target.value));
    find("group").addEventListener("change", (event) => {
      this.state = { ...readLink(`#group=${event.target.value}`, this), draws: this.state.draws, method: this.state.method };
      this.begin(this.group.first, false);
      this.history = [];
      this.rebuild();
    });
    find("output").addEventListener("change", (event) => { this.state.output = Number(event.target.value); this.rebuild(); });
    find("start").addEventListener("change", (event) => { this.truth = null; this.begin(Number(event.target.value) - 1); this.rebuild(); });
    find("undo").addEventListener("click", () => { const points = this.history.pop(); if (points) { this.state.points = points; this.settle(); } });
    find("clear").addEventListener("click", () => { this.remember(); this.state.points = []; this.truth = null; this.rebuild(); });
    find("again").addEventListener("click", () => set("seed", this.state.seed + 1));
    find("csv").addEventListener("click", () => save("mpnp.csv", new Blob([toCsv(this.state, this.group, this.panels.map((panel) => [panel.model.name, panel.answer]))], { type: "text/csv" })));
    find("png").addEventListener("click", async () => save("mpnp.png", await picture(this.panels)));
    find("link").addEventListener("click", () => copyLink(writeLink(this.state)));
    find("controls").addEventListener("submit", (event) => event.preventDefault());
  }

  fillTable() {
    const field = (index, read, write, label) => {
      const input = element("input", { type: "number", step: "any", value: read() ?? "" });
      input.setAttribute("aria-label", label);
      input.addEventListener("change", () => {
        if (input.value !== "" && Number.isFinite(input.valueAsNumber)) { this.remember(); write(input.valueAsNumber); }
        this.settle();
      });
      return element("td", {}, input);
    };
    const { input: name, outputs } = this.group;
    const rows = this.state.points.map((point, i) => {
      const drop = element("button", { type: "button", textContent: "remove" });
      drop.addEventListener("click", () => { this.remember(); this.state.points.splice(i, 1); this.settle(); });
      return element("tr", {}, field(i, () => point.x, (v) => { point.x = v; }, `${name} of point ${i + 1}`),
        ...outputs.map((output, o) => field(i, () => point.y[o], (v) => { point.y[o] = v; }, `${output} of point ${i + 1}`)), element("td", {}, drop));
    });
    find("table").replaceChildren(element("table", {}, element("tr", {}, ...[name, ...outputs].map((text) => element("th", { textContent: text }))), ...rows));
  }

  clearError() {
    if (find("status").className) say("");
  }
}

const tidy = (value) => Number(value.toPrecision(5));

// All panels as one picture, twice as fine as on the screen.
async function picture(panels) {
  const scale = 2, title = 34, canvas = element("canvas", { width: WIDTH * scale * panels.length, height: (HEIGHT + title) * scale });
  const context = canvas.getContext("2d"), style = getComputedStyle(document.documentElement), color = (name) => style.getPropertyValue(`--${name}`).trim();
  const variables = ["ink", "quiet", "line", "card", "accent", "mean", "band", "draw", "exact", "pseudo"].map((name) => `--${name}:${color(name)}`).join(";");
  context.scale(scale, scale);
  context.fillStyle = color("card");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = color("ink");
  context.font = "600 15px system-ui, sans-serif";
  for (const [i, panel] of panels.entries()) {
    const copy = panel.chart.root.cloneNode(true);
    copy.setAttribute("width", WIDTH * scale);
    copy.setAttribute("height", HEIGHT * scale);
    copy.prepend(svg("style"));
    copy.firstChild.textContent = `svg{${variables}}${find("chart-style").textContent}`;
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
    await image.decode();
    context.fillText(panel.model.name, i * WIDTH + LEFT, 23);
    context.drawImage(image, i * WIDTH, title, WIDTH, HEIGHT);
  }
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
