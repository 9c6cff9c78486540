// The page of images: a canvas to paint on, and what the model makes of the pixels it is shown.
"use strict";

const UNKNOWN = [89, 115, 166], SHARE = 0.05, SHARE_AT_START = 0.1;

class PicturePage {
  constructor({ engine, models, shape, pictures, other }) {
    [this.models, [this.height, this.width, this.channels], this.pictures] = [models, shape, pictures];
    this.engine = new ServerEngine(engine.token, "api/picture");
    [this.history, this.busy, this.version, this.answer, this.at] = [[], false, 0, null, Math.floor((shape[0] / 2 + 0.5) * shape[1])];
    this.state = { model: 0, picture: pictures.length ? 1 : 0, draws: 4, brush: pictures.length ? "reveal" : "paint", size: 2, grey: 255, peek: false, pixels: new Map() };
    showOther(other, engine.token);
    this.readLink();
    fill(find("model"), models.map(({ name }) => name), this.state.model);
    fill(find("picture"), ["an empty picture", ...pictures.map(({ name }) => name)], this.state.picture);
    this.listen();
    if (!location.hash && this.hidden) this.reveal(SHARE_AT_START);
    this.update();
    window.addEventListener("hashchange", () => { this.readLink(); this.update(); });
  }

  get hidden() { return this.pictures[this.state.picture - 1]?.pixels ?? null; }
  get size() { return this.height * this.width; }

  // Places are numbered row by row; a link holds the pixels as place and colours.
  writeLink() {
    const { model, picture, draws, pixels } = this.state;
    const text = [...pixels].map(([place, colours]) => [place, ...colours].join(".")).join("~");
    return `#${new URLSearchParams({ model: this.models[model].name, picture: this.pictures[picture - 1]?.name ?? "", draws, pixels: text })}`;
  }

  readLink() {
    const fields = new URLSearchParams(location.hash.slice(1));
    const model = this.models.findIndex(({ name }) => name === fields.get("model")), picture = this.pictures.findIndex(({ name }) => name === fields.get("picture"));
    if (model >= 0) this.state.model = model;
    if (fields.has("picture")) this.state.picture = picture + 1;
    const draws = Number(fields.get("draws"));
    if (Number.isInteger(draws) && draws >= 1 && draws <= 8) this.state.draws = draws;
    const byte = (v) => Number.isInteger(v) && v >= 0 && v < 256;
    const rows = (fields.get("pixels") ?? "").split("~").filter(Boolean).map((text) => text.split(".").map(Number));
    this.state.pixels = new Map(rows.filter(([place, ...colours]) => Number.isInteger(place) && place >= 0 && place < this.size && colours.length === this.channels && colours.every(byte)).map(([place, ...colours]) => [place, colours]));
  }

  remember() {
    this.history.push(new Map(this.state.pixels));
    if (this.history.length > 100) this.history.shift();
  }

  colour() {
    if (this.channels === 1) return [this.state.grey];
    return [1, 3, 5].map((i) => parseInt(find("colour").value.slice(i, i + 2), 16));
  }

  // Apply the brush around a place.
  brush(place) {
    const { size, brush, pixels } = this.state, row = Math.floor(place / this.width), column = place % this.width;
    for (let r = row - Math.floor((size - 1) / 2); r <= row + Math.floor(size / 2); r++) {
      for (let c = column - Math.floor((size - 1) / 2); c <= column + Math.floor(size / 2); c++) {
        if (r < 0 || c < 0 || r >= this.height || c >= this.width) continue;
        const each = r * this.width + c;
        if (brush === "hide") pixels.delete(each);
        else if (brush === "paint") pixels.set(each, this.colour());
        else if (this.hidden) pixels.set(each, this.hidden[each]);
      }
    }
  }

  revealSome() {
    if (!this.hidden) return say("choose a picture first: there is nothing to reveal", true);
    this.remember();
    this.reveal(SHARE);
    this.update();
  }

  // Show a share of the pixels, at random places.
  reveal(share) {
    const waiting = [...Array(this.size).keys()].filter((place) => !this.state.pixels.has(place)), count = Math.ceil(share * this.size);
    for (let i = 0; i < count && waiting.length; i++) {
      const [place] = waiting.splice(Math.floor(Math.random() * waiting.length), 1);
      this.state.pixels.set(place, this.hidden[place]);
    }
  }

  // Ask for an answer to the present pixels. While one is on its way only the newest question waits.
  async update() {
    this.version++;
    this.draw();
    clearTimeout(this.linking);
    this.linking = setTimeout(() => history.replaceState(null, "", this.writeLink()), 250);
    if (this.busy) return;
    this.busy = find("pictures").ariaBusy = true;
    let answered = -1;
    while (answered !== this.version) {
      const version = this.version, started = performance.now();
      try {
        this.answer = await this.engine.post({ model: this.models[this.state.model].name, draws: this.state.draws, pixels: [...this.state.pixels].map(([place, colours]) => [place, ...colours]) });
        say(`answered within ${Math.round(performance.now() - started)} ms`);
      } catch (error) {
        if (version === this.version) say(error.message, true);
      }
      answered = version;
      this.draw();
    }
    this.busy = find("pictures").ariaBusy = false;
  }

  draw() {
    const { state, hidden, answer } = this, faint = (colours) => colours.map((v, i) => 0.75 * UNKNOWN[i % 3] + 0.25 * v);
    const given = Array.from({ length: this.size }, (_, i) => state.pixels.get(i) ?? (state.peek && hidden ? faint([0, 1, 2].map((c) => hidden[i][c % this.channels])) : UNKNOWN));
    this.show(find("given"), given, find("given").matches(":focus-visible") ? this.at : null);
    find("given").setAttribute("aria-label", `Picture of ${this.width} by ${this.height} pixels, of which ${state.pixels.size} are shown. Arrow keys move the cross, Enter applies the brush.`);
    find("count").textContent = `${state.pixels.size} of ${this.size} (${Math.round((100 * state.pixels.size) / this.size)}%)`;
    for (const name of ["draws", "size", "grey"]) find(`${name}-value`).textContent = find(name).value = state[name];
    for (const input of document.getElementsByName("brush")) input.checked = input.value === state.brush;
    find("model").value = state.model;
    find("model").title = this.models[state.model].about;
    find("picture").value = state.picture;
    document.querySelector('[value="reveal"]').disabled = !hidden;
    find("grey-choice").hidden = this.channels > 1;
    find("colour-choice").hidden = this.channels === 1;
    if (!answer) return;
    this.show(find("mean"), answer.mean);
    const most = Math.max(...answer.std, 1e-6);
    this.show(find("std"), answer.std.map((v) => [(255 * v) / most]));
    while (find("drawn").children.length > answer.draws.length) find("drawn").lastChild.remove();
    answer.draws.forEach((draw, i) => {
      if (!find("drawn").children[i]) find("drawn").append(element("figure", {}, element("canvas"), element("figcaption", { textContent: `draw ${i + 1}` })));
      this.show(find("drawn").children[i].firstChild, draw);
    });
    find("warnings").replaceChildren(...(answer.implausible ? [element("p", { className: "warning", textContent: "do not trust this completion: the model finds the shown pixels less likely than random colours, so they are unlike its training images" })] : []));
  }

  show(canvas, pixels, cross = null) {
    if (canvas.width !== this.width || canvas.height !== this.height) [canvas.width, canvas.height] = [this.width, this.height];
    const context = canvas.getContext("2d"), image = context.createImageData(this.width, this.height);
    pixels.forEach((colours, i) => image.data.set([0, 1, 2].map((c) => colours[c % colours.length]).concat(255), 4 * i));
    if (cross !== null) image.data.set([241, 105, 19, 255], 4 * cross);
    context.putImageData(image, 0, 0);
  }

  placeOf(event) {
    const box = find("given").getBoundingClientRect();
    const [column, row] = [Math.floor(((event.clientX - box.left) / box.width) * this.width), Math.floor(((event.clientY - box.top) / box.height) * this.height)];
    return row >= 0 && column >= 0 && row < this.height && column < this.width ? row * this.width + column : null;
  }

  listen() {
    const canvas = find("given");
    let painting = false;
    // A fast stroke has more places than events.
    const apply = (event) => {
      const places = [event, ...(event.getCoalescedEvents?.() ?? [])].map((each) => this.placeOf(each)).filter((place) => place !== null);
      for (const place of places) this.brush(place);
      if (places.length) this.update();
    };
    canvas.addEventListener("pointerdown", (event) => { if (event.button !== 0) return; painting = true; canvas.setPointerCapture(event.pointerId); this.remember(); apply(event); });
    canvas.addEventListener("pointermove", (event) => painting && apply(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { painting = false; });
    canvas.addEventListener("keydown", (event) => this.key(event));
    for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => this.draw());
    for (const name of ["draws", "size", "grey"]) find(name).addEventListener("input", () => { this.state[name] = Number(find(name).value); name === "draws" ? this.update() : this.draw(); });
    for (const input of document.getElementsByName("brush")) input.addEventListener("change", () => { this.state.brush = input.value; this.draw(); });
    find("peek").addEventListener("change", () => { this.state.peek = find("peek").checked; this.draw(); });
    find("model").addEventListener("change", () => { this.state.model = Number(find("model").value); this.update(); });
    find("picture").addEventListener("change", () => this.choose(Number(find("picture").value)));
    find("file").addEventListener("change", () => this.read(find("file").files[0]));
    find("random").addEventListener("click", () => this.revealSome());
    find("undo").addEventListener("click", () => { const pixels = this.history.pop(); if (pixels) { this.state.pixels = pixels; this.update(); } });
    find("clear").addEventListener("click", () => { this.remember(); this.state.pixels.clear(); this.update(); });
    find("link").addEventListener("click", () => copyLink(this.writeLink()));
    find("png").addEventListener("click", async () => save("mpnp.png", await this.picture()));
    find("controls").addEventListener("submit", (event) => event.preventDefault());
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.width, ArrowDown: this.width }[event.key];
    if (step) {
      const edge = Math.abs(step) === 1 && Math.floor((this.at + step) / this.width) !== Math.floor(this.at / this.width);
      if (!edge && this.at + step >= 0 && this.at + step < this.size) this.at += step;
      this.draw();
    } else if (["Enter", " "].includes(event.key)) {
      this.remember();
      this.brush(this.at);
      this.update();
    } else return;
    event.preventDefault();
  }

  choose(number) {
    this.remember();
    Object.assign(this.state, { picture: number, brush: number ? "reveal" : "paint" });
    this.state.pixels.clear();
    this.update();
  }

  // A picture from this machine, cropped to the shape of the model's images. It stays in the browser, except for the pixels that are shown.
  async read(file) {
    try {
      const bitmap = await createImageBitmap(file), scale = Math.min(bitmap.width / this.width, bitmap.height / this.height);
      const canvas = element("canvas", { width: this.width, height: this.height }), context = canvas.getContext("2d"), [w, h] = [scale * this.width, scale * this.height];
      context.drawImage(bitmap, (bitmap.width - w) / 2, (bitmap.height - h) / 2, w, h, 0, 0, this.width, this.height);
      const { data } = context.getImageData(0, 0, this.width, this.height), grey = ([r, g, b]) => [Math.round(0.299 * r + 0.587 * g + 0.114 * b)];
      const pixels = Array.from({ length: this.size }, (_, i) => [...data.slice(4 * i, 4 * i + 3)]).map((rgb) => (this.channels === 1 ? grey(rgb) : rgb));
      this.pictures.push({ name: file.name, pixels });
      fill(find("picture"), ["an empty picture", ...this.pictures.map(({ name }) => name)], this.pictures.length);
      this.choose(this.pictures.length);
    } catch {
      say("this file is not a picture that the browser can read", true);
    }
  }

  // All canvases side by side.
  picture() {
    const all = [...document.querySelectorAll("canvas")], scale = Math.max(1, Math.round(280 / this.width));
    const canvas = element("canvas", { width: all.length * (this.width * scale + 8), height: this.height * scale }), context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    all.forEach((each, i) => context.drawImage(each, i * (this.width * scale + 8), 0, this.width * scale, this.height * scale));
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }
}

window.page = new PicturePage(JSON.parse(find("data").textContent));
