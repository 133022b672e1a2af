// All rows of a page on one narrow canvas beside the grid, marked by their class: where the differences lie, and a way there.
import { element } from "./dom.js";

const WIDTH = 14;
const CLASSES = { "~": "--ink", "−": "--a", "+": "--b", "↕": "--quiet", "⇄": "--ink" };
const LEAST = 2; // pixels of a mark: one row of 100,000 is seen too

/** `went(share)` hears where somebody pressed or drags, as a share of all rows. What it shows, keys and rows say too. */
export class Strip {
  constructor(went) {
    this.host = element("canvas", { class: "strip", width: WIDTH, height: 1, "aria-hidden": "true" });
    const go = (event) => {
      const box = this.host.getBoundingClientRect();
      went(Math.max(0, Math.min(1, (event.clientY - box.top) / box.height)));
    };
    this.host.addEventListener("pointerdown", (event) => {
      this.host.setPointerCapture(event.pointerId);
      go(event);
    });
    this.host.addEventListener("pointermove", (event) => event.buttons && go(event));
    new ResizeObserver(() => this.draw()).observe(this.host);
    this.rows = [];
  }

  /** Show these rows: a mark each ("" for a fold), and the places of departure, cause and selection (-1: none). */
  fill(rows, places) {
    this.rows = rows;
    this.places = places;
    this.draw();
  }

  /** Move the place of the selection. */
  select(place) {
    if (this.places) this.fill(this.rows, { ...this.places, selected: place });
  }

  /** The colours of the theme as a canvas takes them: it knows no light-dark(). */
  #pens() {
    const found = {};
    for (const name of ["--ink", "--a", "--b", "--quiet", "--focus"]) {
      this.host.style.color = `var(${name})`;
      found[name] = getComputedStyle(this.host).color;
    }
    this.host.style.color = "";
    return found;
  }

  draw() {
    const box = this.host.getBoundingClientRect();
    const height = Math.max(1, Math.round(box.height));
    if (this.host.height !== height) this.host.height = height;
    const pen = this.host.getContext("2d");
    const pens = this.#pens();
    pen.clearRect(0, 0, WIDTH, height);
    const each = height / Math.max(1, this.rows.length);
    const bar = (place, left, width, name) => {
      pen.fillStyle = pens[name];
      pen.fillRect(left, Math.floor(place * each), width, Math.max(LEAST, each));
    };
    for (const [mark, name] of Object.entries(CLASSES)) {
      pen.fillStyle = pens[name];
      for (let place = 0; place < this.rows.length; place += 1) {
        if (this.rows[place] === mark) pen.fillRect(3, Math.floor(place * each), WIDTH - 6, Math.max(LEAST, each));
      }
    }
    const { departure = -1, cause = -1, selected = -1 } = this.places ?? {};
    if (cause >= 0) bar(cause, 0, WIDTH, "--quiet");
    if (departure >= 0) bar(departure, 0, WIDTH, "--b");
    if (selected >= 0) bar(selected, 0, 3, "--focus");
  }
}
